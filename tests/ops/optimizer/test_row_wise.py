"""Updates with one number for each row, and counts of rows: row after row in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, ShapeError
from tests.ops.optimizer.of_rows import results, values

Array = NDArray[Any]
AT = np.array([5, 0, 5, 2])
"""Row 5 twice."""
RATE, ITER = np.array([-0.3], np.float32), np.array([3])


TABLE, GRADIENT, SQUARES = values(7, 2, 3), values(4, 2, 3, seed=1), np.abs(values(7, seed=2))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_move_by_the_mean_of_their_squares(dtype: Any) -> None:
    given = {"W": TABLE, "M": SQUARES, "i": AT.astype(dtype), "g": GRADIENT, "lr": RATE}
    moved, sums = results("RowWiseSparseAdagrad", given, ["W", "M"], epsilon=0.5, weight_decay=0.25)
    wanted, kept = TABLE.astype(np.float64), SQUARES.astype(np.float64)
    for row, g in zip(AT, GRADIENT.astype(np.float64), strict=True):
        own = g + 0.25 * wanted[row]
        kept[row] += np.mean(own**2)
        wanted[row] += -0.3 / (np.sqrt(kept[row]) + 0.5) * own
    np.testing.assert_allclose(moved, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sums, kept, rtol=1e-5)


def test_moments_of_rows() -> None:
    given = {"W": TABLE, "M": 0.5 * TABLE, "V": SQUARES, "i": AT, "g": GRADIENT, "lr": RATE, "iter": ITER}
    outputs = ["W", "M", "V", "step"]
    moved, means, squares, steps = results("RowWiseSparseAdam", given, outputs, beta1=0.5, beta2=0.75, epsilon=0.25)
    wanted, first, second = (array.astype(np.float64) for array in (TABLE, 0.5 * TABLE, SQUARES))
    for place, (row, g) in enumerate(zip(AT, GRADIENT.astype(np.float64), strict=True)):
        first[row] = 0.5 * first[row] + 0.5 * g
        second[row] = 0.75 * second[row] + 0.25 * np.mean(g**2)
        step = np.sqrt(1 - 0.75**4) / (1 - 0.5**4) * first[row] / (np.sqrt(second[row]) + 0.25)
        wanted[row] += -0.3 * step
        np.testing.assert_allclose(steps[place], step, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(means, first, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(squares, second, rtol=1e-5)


def test_counts_fade_by_half() -> None:
    last, count = np.array([0, 3, 9, 1, 1, 5, 1]), np.arange(7.0)
    given = {"last": last, "n": count, "i": AT, "iter": np.array([7])}
    times, counts = results("RowWiseCounter", given, ["last", "n"], counter_halflife=2)
    assert times.tolist() == [7, 3, 9, 1, 1, 7, 1]
    assert counts.tolist() == [1.0, 1.0, 3.0, 3.0, 4.0, 1 + (1 + 5 / 2), 6.0]
    times, counts = results("RowWiseCounter", {**given, "i": AT + 100}, ["last", "n"])
    assert (times.tolist(), counts.tolist()) == (last.tolist(), count.tolist())


def test_no_rows_leave_everything() -> None:
    none = {"i": AT[:0], "g": GRADIENT[:0]}
    for type, state, after in (
        ("RowWiseSparseAdagrad", {"M": SQUARES}, {"lr": RATE}),
        ("RowWiseSparseAdam", {"M": TABLE, "V": SQUARES}, {"lr": RATE, "iter": ITER}),
    ):
        kept = results(type, {"W": TABLE, **state, **none, **after}, ["W", *state])
        for result, before in zip(kept, [TABLE, *state.values()], strict=True):
            np.testing.assert_array_equal(result, before)


@pytest.mark.parametrize("rows", [AT + 2, -AT])
def test_rows_that_are_not_there_are_refused(rows: Array) -> None:
    after = {"i": rows, "g": GRADIENT}
    with pytest.raises(NumericError, match="indices"):
        results("RowWiseSparseAdagrad", {"W": TABLE, "M": SQUARES, **after, "lr": RATE}, ["W", "M"])
    adam = {"W": TABLE, "M": TABLE, "V": SQUARES, **after, "lr": RATE, "iter": ITER}
    with pytest.raises(NumericError, match="indices"):
        results("RowWiseSparseAdam", adam, ["W", "M", "V"])
    counted = {"last": AT, "n": np.zeros(4), "i": rows, "iter": ITER}
    with pytest.raises(NumericError, match="indices"):
        results("RowWiseCounter", counted, ["last", "n"], counter_halflife=1)


def test_states_that_do_not_fit_are_refused() -> None:
    after = {"i": AT, "g": GRADIENT, "lr": RATE}
    with pytest.raises(ShapeError, match="M has 6 elements, there are 7 rows"):
        results("RowWiseSparseAdagrad", {"W": TABLE, "M": SQUARES[:6], **after}, ["W", "M"])
    with pytest.raises(ShapeError, match="dW has 18 elements, the rows of W that indices pick have 24"):
        results("RowWiseSparseAdagrad", {"W": TABLE, "M": SQUARES, **after, "g": GRADIENT[:3]}, ["W", "M"])
    with pytest.raises(ShapeError, match="count has 3 elements, there are 4 rows"):
        results("RowWiseCounter", {"last": AT, "n": np.zeros(3), "i": AT, "iter": ITER}, ["last", "n"])
