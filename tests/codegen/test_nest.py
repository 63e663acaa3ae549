"""Dimensions that are merged, and where rows begin in what is left."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tazza.codegen.nest import merged

EXTENTS = st.lists(st.integers(1, 4), max_size=4)


@given(EXTENTS, st.data())
def test_merged_dimensions_reach_the_same_elements_in_the_same_order(extents: list[int], data: st.DataObject) -> None:
    steps = [
        [data.draw(st.sampled_from([0, 1, *[math.prod(extents[k:]) for k in range(4)]])) for _ in range(2)]
        for _ in extents
    ]
    axes = [(extent, tuple(step)) for extent, step in zip(extents, steps, strict=True)]
    assert _reached(merged(axes)) == _reached(axes)
    assert len(merged(axes)) <= len(axes)


def _reached(axes: list[tuple[int, tuple[int, ...]]]) -> list[tuple[int, ...]]:
    """Return where each operand is, element by element."""
    places: list[tuple[int, ...]] = [(0, 0)]
    for extent, steps in axes:
        places = [tuple(a + i * b for a, b in zip(at, steps, strict=True)) for at in places for i in range(extent)]
    return places


def test_dense_dimensions_become_one() -> None:
    assert merged([(2, (15, 15)), (3, (5, 5)), (5, (1, 1))]) == [(30, (1, 1))]
