"""Segments: where rows lie in them, and that many take no more steps of Python than few."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.operator import run_op
from tazza.ops.sparse.segment import places_within


@given(st.lists(st.integers(0, 4), max_size=9))
def test_places_within(lengths: list[int]) -> None:
    assert places_within(np.array(lengths, np.int32)).tolist() == [place for n in lengths for place in range(n)]


def lines_run(type: str, inputs: list[Any], **arguments: Any) -> int:
    """Return how many lines of Python an operator runs."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        del frame, arg
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run_op(type, *inputs, **arguments)
    finally:
        sys.settrace(before)
    return count


def segments(type: str, N: int) -> list[Any]:
    """Return N segments of two rows each, as the operator takes them."""
    lengths, rows = np.full(N, 2, "i"), np.arange(2 * N)
    if type == "SparseLengthsPositionalWeightedSum":
        return [np.ones((2 * N, 3), "f"), np.ones(2, "f"), rows, lengths]
    return [np.ones(2 * N, "f"), lengths]


@pytest.mark.parametrize(
    ("type", "arguments"),
    [("LengthsTopK", {"k": 2}), ("AddPadding", {}), ("SparseLengthsPositionalWeightedSum", {})],
)
def test_many_segments_take_as_many_steps_as_few(type: str, arguments: dict[str, Any]) -> None:
    run_op(type, *segments(type, 3), **arguments)  # what is made once is there
    few, many = (lines_run(type, segments(type, N), **arguments) for N in (3, 3000))
    assert many < few + 3000
