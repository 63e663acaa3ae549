"""ViterbiPath, SwapBestPath: against all paths there are, one step after the other; and what is refused."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def best_of_all(P: Array, A: Array) -> Array:
    """Return the path with the largest sum, of all that there are."""
    paths = product(range(P.shape[1]), repeat=len(P))

    def score(path: tuple[int, ...]) -> float:
        return sum(float(P[t, s]) for t, s in enumerate(path)) + sum(float(A[i, j]) for i, j in pairwise(path))

    return np.array(max(paths, key=score), np.int32)


def swapped(P: Array, path: Array) -> Array:
    """Return each row with two scores exchanged."""
    rows = [row.tolist() for row in P]
    for row, state in zip(rows, path.tolist(), strict=True):
        largest = row.index(max(row))
        row[state], row[largest] = row[largest], row[state]
    return np.array(rows)


P, A = values(5, 3), values(3, 3)
CASES = [
    Case("ViterbiPath", [P, A], best_of_all),
    Case("ViterbiPath", [P[:1], A], best_of_all, id="one step"),
    Case("ViterbiPath", [P[:0], A], np.zeros(0, np.int32), id="no step"),
    Case("ViterbiPath", [P * 0, A * 0], np.zeros(5, np.int32), id="all equal"),
    Case("SwapBestPath", [P, np.array([0, 2, 1, 1, 0], "i")], swapped),
    Case("SwapBestPath", [np.ones((2, 3), "f"), np.array([2, 0], "i")], swapped, id="all equal"),
    Case("SwapBestPath", [P[:0], np.zeros(0, "i")], np.zeros((0, 3)), id="no step"),
]


@on_all_engines(CASES)
def test_viterbi(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_swapped_scores_follow_the_path() -> None:
    """What they are made for: the largest score of each step is that of the best path."""
    path = run_op("ViterbiPath", P, A)
    np.testing.assert_array_equal(run_op("SwapBestPath", P, path).argmax(axis=1), path)


def test_what_is_no_number() -> None:
    """It is passed over, but at the start."""
    x = np.array([[1, np.nan, 2], [np.nan, 1, 2]], "f")
    np.testing.assert_array_equal(run_op("SwapBestPath", x, np.array([0, 1], "i")), [[2, np.nan, 1], [1, np.nan, 2]])
    assert run_op("ViterbiPath", x[:1], A).tolist() == [2]
    assert run_op("ViterbiPath", x[1:], A).tolist() == [0]


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("ViterbiPath", [P, values(2, 2)], ShapeError, r"K is \(2\) in A and \(3\) in P"),
    ("ViterbiPath", [P, values(3, 2)], ShapeError, "K is"),
    ("ViterbiPath", [P[0], A], ShapeError, "P has"),
    ("ViterbiPath", [P[:, :0], A[:0, :0]], ShapeError, "P has 5 steps without states"),
    ("ViterbiPath", [P.astype("d"), A.astype("d")], DTypeError, "P is float64"),
    ("SwapBestPath", [P, np.array([0, 1, 3, 0, 0], "i")], NumericError, r"path\[2\] is 3, not in \[0, 3\)"),
    ("SwapBestPath", [P, np.array([-1, 1, 3, 0, 0], "i")], NumericError, r"path\[0\] is -1"),
    ("SwapBestPath", [P, np.zeros(4, "i")], ShapeError, r"T is \(4\) in path and \(5\) in P"),
    ("SwapBestPath", [P, np.zeros(5, np.int64)], DTypeError, "path is int64"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
