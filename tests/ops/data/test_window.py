"""LastNWindowCollector: recorded sequences, a law, and what does not fit."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, names, on_sequences, recorded

CASES = [recorded(name, stored=True) for name in names() if name.startswith("window_")]


@on_sequences(CASES)
def test_windows(case: Sequence) -> None:
    check_op(case)


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 6))
def test_the_last_rows_are_there(sizes: list[int], N: int) -> None:
    workspace, seen = Workspace(), 0
    workspace.feed("ring", np.zeros((0, 2), np.int64))
    workspace.feed("next", np.array(0, np.int32))
    for size in sizes:
        workspace.feed("x", np.repeat(np.arange(seen, seen + size), 2).reshape(-1, 2))
        workspace.run_operator(
            operator_def("LastNWindowCollector", ["ring", "next", "x"], ["ring", "next"], num_to_collect=N)
        )
        seen += size
        ring = workspace.fetch("ring")
        assert sorted(ring[:, 0].tolist()) == list(range(max(seen - N, 0), seen))
        np.testing.assert_array_equal(ring[:, 0], ring[:, 1])


def test_a_row_more_asks_for_little_memory() -> None:
    workspace, N = Workspace(), 100_000
    workspace.feed("ring", np.arange(N))
    workspace.feed("next", np.array(N - 2, np.int32))
    workspace.feed("x", np.array([-1, -2, -3]))
    op = operator_def("LastNWindowCollector", ["ring", "next", "x"], ["ring", "next"], num_to_collect=N)
    tracemalloc.start()
    workspace.run_operator(op)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000, "the ring has 800 000 bytes"
    assert workspace.fetch("ring")[[-3, -2, -1, 0, 1]].tolist() == [N - 3, -1, -2, -3, 1]


PLACE = np.array(0, np.int32)
WRONG: list[tuple[list[Any], type[Exception], str]] = [
    ([np.zeros(4), PLACE, np.zeros(1)], ShapeError, "buffer has 4 rows, num_to_collect is 3"),
    ([np.zeros(2), PLACE, np.zeros(1)], ShapeError, "next is 0, with 2 of 3 rows it is 2"),
    ([np.zeros(3), PLACE + np.int32(3), np.zeros(1)], ShapeError, r"next is 3, with 3 of 3 rows it is in \[0, 3\)"),
    ([np.zeros((3, 2)), PLACE, np.zeros((1, 4))], ShapeError, r"rows of buffer \(3, 2\) and DATA \(1, 4\) differ"),
    ([np.zeros(3), PLACE, np.zeros(1, np.float32)], DTypeError, "buffer is float64, DATA is float32"),
    ([np.zeros(3), PLACE, np.array(1.0)], ShapeError, "DATA has rank 0"),
    ([np.zeros(3), PLACE.astype(np.int64), np.zeros(1)], DTypeError, "next"),
]


@pytest.mark.parametrize(("inputs", "error", "words"), WRONG)
def test_refused(inputs: list[Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run_op("LastNWindowCollector", *inputs, num_to_collect=3, outputs=2)
    with pytest.raises(ArgumentError, match="num_to_collect"):
        run_op("LastNWindowCollector", *inputs, num_to_collect=0, outputs=2)
