"""TopK and its gradient: by sorting lists of pairs, and what Caffe2 does with too few elements and equal ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError, TazzaError
from tazza.operator import find_schema, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def by_hand(X: Array, k: int, axis: int = -1) -> tuple[Array, Array, Array]:
    """Sort pairs of value and place, row after row."""
    moved = np.moveaxis(X, axis, -1)
    shape = (*moved.shape[:-1], k)
    V, P, F = np.zeros(shape, "f"), np.full(shape, -1), np.full(shape, -1)
    numbers = np.moveaxis(np.arange(X.size).reshape(X.shape), axis, -1)
    for row in np.ndindex(*shape[:-1]):
        pairs = sorted((-float(value), place) for place, value in enumerate(moved[row]))[:k]
        for i, (value, place) in enumerate(pairs):
            V[(*row, i)], P[(*row, i)], F[(*row, i)] = -value, place, numbers[(*row, place)]
    return np.moveaxis(V, -1, axis), np.moveaxis(P, -1, axis), np.moveaxis(F, -1, axis).reshape(-1)


def halves(*shape: int) -> Array:
    """Return numbers of which some are equal."""
    return (np.round(np.random.default_rng(sum(shape)).standard_normal(shape) * 2) / 2).astype(np.float32)


def apart(*shape: int) -> Array:
    """Return numbers that all differ, so that a small step changes no order."""
    return np.random.default_rng(sum(shape)).permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)


def floats(*numbers: float) -> Array:
    """Return float32 numbers."""
    return np.array(numbers, np.float32)


CASES = [
    Case("TopK", [apart(3, 7)], by_hand(apart(3, 7), 2)[:2], {"k": 2}, batched=(0,)),
    Case("TopK", [apart(3, 7, 2)], by_hand(apart(3, 7, 2), 3, 1), {"k": 3, "axis": 1}, outputs=3),
    Case("TopK", [apart(5, 3)], by_hand(apart(5, 3), 4, 0), {"k": 4, "axis": 0}, outputs=3),
    Case("TopK", [apart(2, 3)], by_hand(apart(2, 3), 5), {"k": 5}, outputs=3),
    Case("TopK", [apart(11)], by_hand(apart(11), 4, 0), {"k": 4}, outputs=3),
    Case("TopK", [apart(2, 3), np.array([2])], by_hand(apart(2, 3), 2)[:2], {}),
    Case("TopK", [halves(4, 9)], by_hand(halves(4, 9), 5), {"k": 5}, outputs=3, gradient=False),  # kinks
    Case(
        "TopK", [np.zeros((0, 3), "f")], by_hand(np.zeros((0, 3), "f"), 2), {"k": 2}, outputs=3, gradient=False
    ),  # nothing
    Case("TopK", [halves(3, 700)], by_hand(halves(3, 700), 256), {"k": 256}, outputs=3, gradient=False),
    Case("TopK", [apart(2, 300)], by_hand(apart(2, 300), 257)[:2], {"k": 257}, gradient=False),
    Case("TopK", [halves(5, 4, 3)], by_hand(halves(5, 4, 3), 6, 1), {"k": 6, "axis": 1}, outputs=3, gradient=False),
    Case("TopK", [np.arange(41, dtype="f")], by_hand(np.arange(41, dtype="f"), 9), {"k": 9}, outputs=3),
    Case("TopKGradient", [[floats(7, 8)], [[2, 0]], [floats(0, 0, 0)]], np.array([[8, 0, 7]], "f")),
    Case("TopKGradient", [[floats(7, 8, 9)], [[2, -1, 0]], [floats(0, 0, 0)]], np.array([[0, 0, 7]], "f")),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("engine", engines_of("TopK"))
def test_rows_of_nan_and_of_fewer_numbers_than_k(engine: str) -> None:
    X = np.array([[np.nan, 2, np.nan, -1], [np.nan] * 4, [1, 1, np.inf, 1]], "f")
    (V, P), _ = run(operator_def("TopK", ["in0"], ["V", "P"], k=5), [X], engine)
    n = np.nan
    np.testing.assert_array_equal(V, np.array([[2, -1, n, n, 0], [n, n, n, n, 0], [np.inf, 1, 1, 1, 0]], "f"))
    np.testing.assert_array_equal(P, [[1, 3, 0, 2, -1], [0, 1, 2, 3, -1], [2, 0, 1, 3, -1]])


@pytest.mark.parametrize("engine", engines_of("TopK"))
def test_nan_stands_behind_all_others(engine: str) -> None:
    X = np.array([[1, np.nan, -np.inf, 3, np.nan]], "f")
    (V, P), _ = run(operator_def("TopK", ["in0"], ["V", "P"], k=4), [X], engine)
    np.testing.assert_array_equal(V, np.array([[3, 1, -np.inf, np.nan]], "f"))
    np.testing.assert_array_equal(P, [[3, 0, 2, 1]])


@pytest.mark.parametrize(
    ("inputs", "args", "kind", "text"),
    [
        ([halves(2, 3)], {"k": 0}, ArgumentError, "k is 0, it must be at least 1"),
        ([halves(2, 3)], {}, ArgumentError, "k is -1"),
        ([halves(2, 3), np.array([-2])], {}, ArgumentError, "k is -2"),
        ([halves(2, 3), np.array([1, 2])], {}, ShapeError, "K has 2 elements"),
        ([halves(2, 3)], {"k": 1, "axis": 2}, ShapeError, "axis 2 of an X of rank 2"),
        ([np.float32(3)], {"k": 1}, ShapeError, "axis -1 of an X of rank 0"),
    ],
)
def test_refused(inputs: list[Array], args: dict[str, Any], kind: type[TazzaError], text: str) -> None:
    with pytest.raises(kind, match=text):
        run_op("TopK", *inputs, **args)


@pytest.mark.parametrize("engine", engines_of("TopKGradient"))
def test_an_index_beyond_the_axis_is_named(engine: str) -> None:
    inputs = [halves(2, 2), np.array([[0, 2], [1, 3]]), halves(2, 3)]
    with pytest.raises(NumericError, match=r"P\[1, 1\] is 3, and X has 3 elements along axis 1"):
        run(operator_def("TopKGradient", ["in0", "in1", "in2"], ["dX"]), inputs, engine)


def test_shapes_before_k_is_known() -> None:
    op = find_schema("TopK").view(operator_def("TopK", ["x", "k"], ["v", "i", "f"]))
    specs = [TensorSpec((2, 3), DataType.FLOAT), TensorSpec((1,), DataType.INT64)]
    V, _, F = op.schema.infer_specs(op, specs).specs
    assert V == TensorSpec((2, None), DataType.FLOAT)
    assert F == TensorSpec((None,), DataType.INT64)
