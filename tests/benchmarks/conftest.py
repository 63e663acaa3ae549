"""Benchmarks go with the package: what of their tests is slow is left to `make delivery`."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the slow ones: those of this folder alone are told of here."""
    if item.get_closest_marker("slow") is not None:
        item.add_marker(pytest.mark.delivery)
