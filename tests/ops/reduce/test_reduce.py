"""Reductions over axes: against a loop over the elements of Y; ties and empty axes; and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import find_schema, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


FORMULAS: dict[str, Callable[[list[float]], float]] = {
    "ReduceSum": math.fsum,
    "ReduceMean": lambda x: math.fsum(x) / len(x),
    "ReduceMax": max,
    "ReduceMin": min,
    "ReduceL1": lambda x: math.fsum(map(abs, x)),
    "ReduceL2": lambda x: math.sqrt(math.fsum(e * e for e in x)),
}


def by_hand(type: str, axes: Sequence[int], keepdims: bool = True) -> Any:
    """Return a reduction that lists the elements for each place of Y."""

    def function(X: Array) -> Array:
        Y = np.zeros([1 if i in axes else n for i, n in enumerate(X.shape)], X.dtype)
        for place in np.ndindex(*Y.shape):
            where = tuple(slice(None) if i in axes else p for i, p in enumerate(place))
            numbers: list[float] = X[where].ravel().tolist()
            Y[place] = FORMULAS[type](numbers)
        return Y if keepdims else Y.reshape([n for i, n in enumerate(X.shape) if i not in axes])

    return function


def column(*numbers: float) -> Array:
    """Return float32 numbers below each other."""
    return np.array(numbers, np.float32).reshape(-1, 1)


X = values(2, 3, 5, 4)
ROW = np.array([[3, -3, 3], [0, 0, 0]], "f")
TIES = [column(5, 7), ROW]

CASES = [
    *(Case(type, [X], by_hand(type, [1, 3]), {"axes": [3, 1]}, batched=(0,), slack=4) for type in FORMULAS),
    *(Case(type, [X], by_hand(type, [0, 1, 2, 3]), slack=16, id="all") for type in FORMULAS),
    *(
        Case(
            type, [X], by_hand(type, [3], False), {"axes": [-1, 3], "keepdims": 0}, batched=(0,), slack=4, id="dropped"
        )
        for type in FORMULAS
    ),
    Case("ReduceSum", [X], by_hand("ReduceSum", [0, 1, 2, 3], False), {"keepdims": 0}, slack=16, id="to rank 0"),
    *(
        Case(type, [X[0, 0, 0, 0]], abs(X[0, 0, 0, 0]), gradient=False, id="rank 0")
        for type in ("ReduceL1", "ReduceL2")
    ),
    *(Case(type, [X[0, 0, 0, 0]], X[0, 0, 0, 0], id="rank 0") for type in ("ReduceSum", "ReduceMean", "ReduceMax")),
    Case("ReduceMax", [X.astype("d")], by_hand("ReduceMax", [2]), {"axes": [2]}, id="float64"),
    # Integers have no derivative.
    *(
        Case(type, [np.arange(6, dtype=of).reshape(2, 3) - 2], by_hand(type, [1]), {"axes": [1]}, gradient=False, id=of)
        for type in ("ReduceSum", "ReduceMax", "ReduceMin")
        for of in ("int32", "int64")
    ),
    Case("ReduceSumGradient", [*TIES, ROW[:, :1]], [[[5] * 3, [7] * 3]], {"axes": [1]}),
    Case("ReduceMeanGradient", [*TIES, ROW[:, :1]], [[[5 / 3] * 3, [7 / 3] * 3]], {"axes": [1]}),
    # Each of several largest elements gets the gradient, as in Caffe2.
    Case("ReduceMaxGradient", [*TIES, column(3, 0)], [[[5, 0, 5], [7, 7, 7]]], {"axes": [1]}),
    Case("ReduceMinGradient", [*TIES, column(-3, 0)], [[[0, 5, 0], [7, 7, 7]]], {"axes": [1]}),
    Case("ReduceL1Gradient", [*TIES, column(9, 0)], [[[5, -5, 5], [0, 0, 0]]], {"axes": [1]}),
    # No derivative at 0; Caffe2 gives dY there, which is no subgradient.
    Case("ReduceL2Gradient", [*TIES, column(27**0.5, 0)], [np.sign(ROW) * 5 / 3**0.5], {"axes": [1]}),
]


@on_all_engines(CASES)
def test_reduce(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(
    ("type", "wanted"),
    [
        ("ReduceSum", 0.0),
        ("ReduceMean", 0.0),
        ("ReduceMax", -np.finfo("f").max),
        ("ReduceMin", np.finfo("f").max),
        ("ReduceL1", 0.0),
        ("ReduceL2", 0.0),
    ],
)
def test_no_elements(type: str, wanted: float) -> None:
    """As in Caffe2."""
    np.testing.assert_array_equal(run_op(type, np.zeros((2, 0), "f"), axes=[1]), np.full((2, 1), wanted, "f"))
    assert run_op(type, np.zeros((0, 3), "f"), axes=[1]).shape == (0, 1)
    empty = np.zeros((2, 0), "f")
    assert run_op(f"{type}Gradient", np.ones((2, 1), "f"), empty, np.ones((2, 1), "f"), axes=[1]).shape == (2, 0)


@pytest.mark.parametrize("type", ["ReduceMax", "ReduceMin"])
def test_nan_is_never_lost(type: str) -> None:
    """Caffe2 loses it unless it comes first."""
    assert np.isnan(run_op(type, [[float("nan"), 1.0], [2.0, float("nan")]], axes=[1])).all()


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("ReduceSum", [X], {"axes": [4]}, ShapeError, r"axes = \[4\] are not all axes of X, which has 4 dimensions"),
    ("ReduceSum", [X], {"axes": [1, -5]}, ShapeError, r"axes = \[1, -5\] are not all axes of X"),
    ("ReduceMean", [X.astype("d")], {}, DTypeError, "X is float64, it must be float32"),
    ("ReduceSum", [X.astype("e")], {}, DTypeError, "X is float16, it must be"),
    (
        "ReduceSumGradient",
        [ROW[:, 0], ROW, ROW[:, 0]],
        {"axes": [1]},
        ShapeError,
        r"dY has the shape \(2\), reducing X gives \(2, 1\)",
    ),
    ("ReduceL2Gradient", [ROW[:, :1], ROW, ROW], {"axes": [1]}, ShapeError, r"Y has the shape \(2, 3\), reducing X"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_unknown_dimensions() -> None:
    schema, nothing = find_schema("ReduceSum"), TensorSpec(None, DataType.FLOAT)
    op = schema.view(operator_def("ReduceSum", ["x"], ["y"], axes=[0], keepdims=0))
    found = schema.infer_specs(op, [TensorSpec((None, 3, None), DataType.FLOAT)])
    assert found.specs == (TensorSpec((3, None), DataType.FLOAT),)
    assert schema.infer_specs(op, [nothing]).specs == (nothing,)
