"""Wngrad and Storm: element after element in float64; of rows: row after row, all with one length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


def of_one(value: float) -> Array:
    """Return a tensor of one element."""
    return np.array([value], np.float32)


def wngrad(W: Array, b: Array, dW: Array, lr: Array, *, epsilon: float = 1e-5) -> tuple[Any, ...]:
    """Return W_next, b_next, rate and step."""
    rate = float(lr.item()) / (float(b.item()) + epsilon)
    squares = sum(float(g) ** 2 for g in dW.flat)
    moved = [float(w) + rate * float(g) for w, g in zip(W.flat, dW.flat, strict=True)]
    after = float(b.item()) + squares / (float(b.item()) + epsilon)
    return np.reshape(moved, W.shape), np.full(b.shape, after), np.full(b.shape, rate), rate * dW


def storm(
    W: Array, M: Array, s: Array, dW: Array, lr: Array, *, momentum: float = 10.0, beta: float = 0.1
) -> tuple[Any, ...]:
    """Return W_next, M_next and s_next."""
    after = float(s.item()) + sum(float(g) ** 2 for g in dW.flat)
    n = float(lr.item()) / (beta + after) ** (1 / 3)
    moments = [float(m) - momentum * n * n * (float(m) - g) + 0.0 for m, g in zip(M.flat, dW.flat, strict=True)]
    moved = [float(w) + n * m for w, m in zip(W.flat, moments, strict=True)]
    return np.reshape(moved, W.shape), np.reshape(moments, M.shape), np.full(s.shape, after)


SHAPE = (3, 5)
GIVEN, M, RATE = [values(*SHAPE), of_one(2)], values(*SHAPE, seed=1), of_one(-0.3)
DW = values(*SHAPE, seed=2)
SLOW: dict[str, Any] = {"momentum": 1.0, "beta": 0.5}


def without_rate(*given: Array) -> tuple[Any, ...]:
    """Return W_next and b_next."""
    return wngrad(*given)[:2]


def larger_epsilon(*given: Array) -> tuple[Any, ...]:
    """Return W_next and b_next."""
    return wngrad(*given, epsilon=0.5)[:2]


def slow_storm(*given: Array) -> tuple[Any, ...]:
    """Return all that Storm does with the other arguments."""
    return storm(*given, **SLOW)


CASES = [
    Case("Wngrad", [*GIVEN, DW, RATE], without_rate, outputs=2, slack=2),
    Case("Wngrad", [*GIVEN, DW, RATE], wngrad, outputs=4, slack=2, id="all outputs"),
    Case(
        "Wngrad",
        [*GIVEN, DW.ravel(), RATE],
        larger_epsilon,
        {"epsilon": 0.5},
        2,
        slack=2,
        id="another epsilon, dW of another shape",
    ),
    Case("Wngrad", [GIVEN[0][:0], of_one(2), DW[:0], RATE], (DW[:0], of_one(2)), outputs=2, id="empty"),
    Case("Storm", [GIVEN[0], M, of_one(4), DW, RATE], storm, outputs=3, slack=4),
    Case(
        "Storm",
        [GIVEN[0], M.ravel(), of_one(4), DW.reshape(5, 3), RATE],
        slow_storm,
        SLOW,
        3,
        slack=4,
        id="as many elements in other shapes",
    ),
    Case("Storm", [GIVEN[0][:0], M[:0], of_one(4), DW[:0], RATE], (DW[:0], DW[:0], of_one(4)), outputs=3, id="empty"),
]


@on_all_engines(CASES)
def test_shared_step(case: Case, engine: str) -> None:
    check_op(case, engine)


TABLE, ROWS = values(7, 2), values(4, 2, seed=1)
AT = np.array([5, 0, 5, 2])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_move_by_the_length_of_all(dtype: Any) -> None:
    """Row 5 twice, with the same length both times; rows that nobody picks stay."""
    squares = float(np.square(ROWS, dtype=np.float64).sum())
    op = operator_def("SparseWngrad", ["W", "b", "i", "g", "lr"], ["W", "b"])
    (moved, b), _ = run(op, [TABLE.copy(), of_one(2), AT.astype(dtype), ROWS, RATE])
    wanted = TABLE.astype(np.float64)
    np.add.at(wanted, AT, -0.3 / (2 + 1e-5) * ROWS.astype(np.float64))
    np.testing.assert_allclose(moved, wanted, rtol=1e-6)
    np.testing.assert_allclose(b, [2 + squares / 2], rtol=1e-6)

    moments = values(7, 2, seed=3)
    op = operator_def("SparseStorm", ["W", "M", "s", "g", "i", "lr"], ["W", "M", "s"], **SLOW)
    (moved, kept, s), _ = run(op, [TABLE.copy(), moments.copy(), of_one(4), ROWS, AT.astype(dtype), RATE])
    n = -0.3 / (0.5 + 4 + squares) ** (1 / 3)
    assert s.item() == pytest.approx(4 + squares, rel=1e-6)
    np.testing.assert_allclose(kept, _storm_rows(moments, ROWS, n), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved, _storm_moved(moments, ROWS, n), rtol=1e-5, atol=1e-6)


def _storm_rows(moments: Array, rows: Array, n: float) -> Array:
    kept = moments.astype(np.float64)
    for row, g in zip(AT, rows.astype(np.float64), strict=True):
        kept[row] = g + (1 - n * n) * (kept[row] - g)
    return kept


def _storm_moved(moments: Array, rows: Array, n: float) -> Array:
    kept, moved = moments.astype(np.float64), TABLE.astype(np.float64)
    for row, g in zip(AT, rows.astype(np.float64), strict=True):
        kept[row] = g + (1 - n * n) * (kept[row] - g)
        moved[row] += n * kept[row]
    return moved


def test_no_rows_leave_everything() -> None:
    for type, given in (
        ("SparseWngrad", {"W": TABLE, "b": of_one(2), "i": AT[:0], "g": ROWS[:0], "lr": RATE}),
        ("SparseStorm", {"W": TABLE, "M": TABLE + 1, "s": of_one(2), "g": ROWS[:0], "i": AT[:0], "lr": RATE}),
    ):
        kept = [name for name in given if name in ("W", "M", "b", "s")]
        results, _ = run(operator_def(type, list(given), kept), [value.copy() for value in given.values()])
        for name, result in zip(kept, results, strict=True):
            np.testing.assert_array_equal(result, given[name])


REFUSED: list[tuple[str, list[Any], type[TazzaError], str]] = [
    ("Wngrad", [*GIVEN, DW[:2], RATE], ShapeError, "dW has the shape"),
    ("Wngrad", [GIVEN[0], np.ones(2, "f"), DW, RATE], ShapeError, "b has the shape"),
    ("Wngrad", [*GIVEN, DW, np.ones(2, "f")], ShapeError, "lr has the shape"),
    ("Storm", [GIVEN[0], M[:2], of_one(1), DW, RATE], ShapeError, "M has the shape"),
    ("Storm", [GIVEN[0], M, np.ones(2, "f"), DW, RATE], ShapeError, "s has the shape"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, outputs=2 if type == "Wngrad" else 3)


def test_rows_that_do_not_fit_are_refused() -> None:
    names = ["W", "b", "i", "g", "lr"]
    blobs = [TABLE.copy(), of_one(2), AT, ROWS, RATE]
    with pytest.raises(SchemaError, match="W"):
        run(operator_def("SparseWngrad", names, ["other", "b"]), blobs)
    op = operator_def("SparseWngrad", names, ["W", "b"])
    with pytest.raises(NumericError, match="indices"):
        run(op, [*blobs[:2], AT + 2, *blobs[3:]])
    with pytest.raises(ShapeError, match="dW has 6 elements, the rows of W that indices pick have 8"):
        run(op, [*blobs[:3], ROWS[:3], RATE])
    op = operator_def("SparseStorm", ["W", "M", "s", "g", "i", "lr"], ["W", "M", "s"])
    with pytest.raises(NumericError, match="indices"):
        run(op, [TABLE.copy(), TABLE.copy(), of_one(2), ROWS, -AT, RATE])
