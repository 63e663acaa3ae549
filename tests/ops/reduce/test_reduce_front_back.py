"""Reductions over leading or trailing axes: against a loop over columns; lengths; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
TYPES = ("ReduceFrontSum", "ReduceFrontMean", "ReduceBackSum", "ReduceBackMean")


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def by_columns(type: str, count: int = 1) -> Any:
    """Return a reduction that adds up one column after the other in Python."""

    def function(X: Array, lengths: Array | None = None) -> Array:
        front = "Front" in type
        kept = X.shape[count:] if front else X.shape[: X.ndim - count]
        Y = np.zeros(kept, X.dtype)
        for number, place in enumerate(np.ndindex(*kept)):
            where = (*(slice(None),) * count, *place) if front else place
            elements: list[float] = X[where].ravel().tolist()
            if lengths is not None:
                elements = elements[: lengths.ravel()[number]]
            divisor = max(len(elements), 1) if "Mean" in type else 1
            Y[place] = sum(elements) / divisor
        return Y

    return function


X, SMALL = values(3, 2, 5), values(2, 5)
FRONT, BACK = np.array([3, 0, 1, 2, 3, 1, 2, 3, 0, 1], "i"), np.array([5, 0, 1, 4, 2, 3], "i")

CASES = [
    *(Case(type, [X], by_columns(type), batched=(0,), slack=2) for type in TYPES),
    *(Case(type, [X], by_columns(type, 2), {"num_reduce_dim": 2}, slack=4, id="two axes") for type in TYPES),
    *(Case(type, [X], by_columns(type, 3), {"num_reduce_dim": 3}, slack=4, id="all axes") for type in TYPES),
    *(Case(type, [X], X, {"num_reduce_dim": 0}, id="no axis") for type in TYPES),
    *(Case(type, [X, FRONT if "Front" in type else BACK], by_columns(type), slack=2, id="lengths") for type in TYPES),
    *(Case(type, [X.astype("d")], by_columns(type), id="float64") for type in TYPES),
    # Integers have no derivative; means are rounded to zero.
    *(Case(type, [np.arange(-7, 8).reshape(3, 5)], by_columns(type), gradient=False, id="int64") for type in TYPES),
    Case("ReduceFrontSumGradient", [SMALL, np.array([3, 2, 5])], np.stack([SMALL] * 3), id="shape"),
    Case("ReduceFrontMeanGradient", [SMALL, np.array([3, 2, 5])], np.stack([SMALL / 3] * 3)),
    Case("ReduceBackSumGradient", [SMALL, np.array([2, 5, 3])], np.stack([SMALL] * 3, axis=2)),
    Case("ReduceBackMeanGradient", [SMALL, np.array([2, 5, 3])], np.stack([SMALL / 3] * 3, axis=2)),
]


@on_all_engines(CASES)
def test_reduce_front_back(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("type", TYPES)
def test_no_elements(type: str) -> None:
    """A mean over nothing is 0, as in Caffe2."""
    shape = (0, 3) if "Front" in type else (3, 0)
    np.testing.assert_array_equal(run_op(type, np.zeros(shape, "f")), np.zeros(3, "f"))


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("ReduceFrontSum", [X], {"num_reduce_dim": 4}, ShapeError, "num_reduce_dim = 4, X has only 3 dimensions"),
    ("ReduceBackSum", [X], {"num_reduce_dim": -1}, ArgumentError, "'num_reduce_dim' = -1 is below its minimum 0"),
    ("ReduceFrontSum", [X, BACK], {}, ShapeError, r"lengths has the shape \(6\), X \(3, 2, 5\) has 10 columns"),
    ("ReduceBackMean", [X, BACK], {"num_reduce_dim": 2}, ShapeError, "num_reduce_dim = 2 with an input lengths"),
    ("ReduceBackSum", [X, BACK + 1], {}, NumericError, r"lengths\[\d\] is 6, not in \[0, 6\)"),
    ("ReduceFrontMean", [X, FRONT - 1], {}, NumericError, r"lengths\[\d\] is -1, not in \[0, 4\)"),
    ("ReduceBackSum", [X, BACK.astype("l")], {}, DTypeError, "lengths is int64, it must be int32"),
    ("ReduceFrontMean", [X > 0], {}, DTypeError, "X is bool"),
    ("ReduceBackSumGradient", [X, X], {}, ShapeError, r"dY has the shape \(3, 2, 5\), reducing X gives \(3, 2\)"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


@pytest.mark.parametrize("type", TYPES)
def test_emitted_gradients(type: str) -> None:
    op = find_schema(type).view(operator_def(type, ["x", "n"], ["y"]))
    (emitted,), gradients = gradient_for_op(op, ["dy"])
    assert (emitted.type, list(emitted.input), gradients) == (f"{type}Gradient", ["dy", "x", "n"], ["x_grad", None])


def test_unknown_dimensions() -> None:
    schema = find_schema("ReduceFrontSumGradient")
    op = schema.view(operator_def("ReduceFrontSumGradient", ["dy", "x"], ["dx"]))
    dY, shape = TensorSpec((5,), DataType.FLOAT), TensorSpec((2,), DataType.INT64)
    found = schema.infer_specs(op, [dY, shape])
    assert (found.specs, found.reads) == ((TensorSpec((None, None), DataType.FLOAT),), {"X"})
    nothing = TensorSpec(None, DataType.FLOAT)
    assert schema.infer_specs(op, [dY, nothing]).specs == (nothing,)
