"""What the gates share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.house import trees


@pytest.fixture(scope="package", autouse=True)
def forgotten_trees() -> Iterator[None]:
    """Forget syntax trees behind the last gate: each search for garbage in later tests would go through them."""
    yield
    trees.nodes.cache_clear()
    trees.tree.cache_clear()
