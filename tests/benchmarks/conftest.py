"""Benchmarks go with the package: what of their tests is slow is left to `make delivery`."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow ones of this folder; pytest hands over all that were collected."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.delivery)
