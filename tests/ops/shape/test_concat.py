"""Concat and DepthConcat: against copies element by element; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError
from tazza.operator import find_schema, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def joined(axis: int) -> Any:
    """Return a concatenation that puts each input where it belongs, and the extents."""

    def function(*X: Array) -> list[Array]:
        extents = [x.shape[axis] for x in X]
        shape = list(X[0].shape)
        shape[axis] = sum(extents)
        Y, start = np.empty(shape, X[0].dtype), 0
        for x in X:
            np.moveaxis(Y, axis, 0)[start : start + x.shape[axis]] = np.moveaxis(x, axis, 0)
            start += x.shape[axis]
        return [Y, np.array(extents, np.int32)]

    return function


def stacked(axis: int) -> Any:
    """Return a stacking along a new axis, and 1s."""

    def function(*X: Array) -> list[Array]:
        Y = np.empty((len(X), *X[0].shape), X[0].dtype)
        for i, x in enumerate(X):
            Y[i] = x
        return [np.moveaxis(Y, 0, axis), np.ones(len(X), np.int32)]

    return function


A, B, C = values(2, 3, 5, 4), values(2, 7, 5, 4), values(2, 1, 5, 4)
LAST = [np.moveaxis(x, 1, -1).copy() for x in (A, B, C)]
TEXT = [np.array([b"a", b"longer"], object), np.array([b""], object)]

CASES = [
    Case("Concat", [A, B, C], joined(1), batched=(0, 1, 2)),
    Case("Concat", [A], joined(1), id="alone"),
    Case("Concat", LAST, joined(3), {"order": "NHWC"}, batched=(0, 1, 2), id="NHWC"),
    Case("Concat", LAST, joined(3), {"axis": -1}, id="axis -1"),
    Case("Concat", [A[:0], A, A[:1]], joined(0), {"axis": 0}, id="axis 0, one empty"),
    Case("Concat", [A, A + 1, A * 2], stacked(1), {"axis": 1, "add_axis": 1}, id="add_axis"),
    Case("Concat", [A, B], joined(1), {"add_axis": 1}, id="add_axis counts beside axis alone"),
    Case("Concat", LAST, joined(3), {"add_axis": 1, "order": "NHWC"}, id="add_axis beside order"),
    Case("Concat", [A, A + 1], stacked(4), {"axis": -1, "add_axis": 1}, id="add_axis -1"),
    Case("Concat", [A[0, 0, 0, 0], A[0, 0, 0, 1]], stacked(0), {"axis": 0, "add_axis": 1}, id="numbers"),
    # What is no float has no derivative.
    Case("Concat", [np.arange(6).reshape(2, 3), np.arange(2).reshape(2, 1)], joined(1), gradient=False, id="int64"),
    Case("Concat", [A > 0, B > 0], joined(1), gradient=False, id="bool"),
    Case("Concat", TEXT, joined(0), {"axis": 0}, gradient=False, id="text"),
    Case("DepthConcat", [A, B], joined(1), batched=(0, 1)),
    Case("DepthConcat", [A, A[:1]], joined(0), {"axis": 0}, id="axis 0"),
]


@on_all_engines(CASES)
def test_concat(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([A, B], {"axis": 0}, ShapeError, r"X1 has the shape \(2, 7, 5, 4\), X0 has \(2, 3, 5, 4\)"),
    ([A, B], {"axis": 1, "add_axis": 1}, ShapeError, r"X1 has the shape \(2, 7, 5, 4\), X0 has"),
    ([A, A[..., None]], {}, ShapeError, r"X1 has the shape \(2, 3, 5, 4, 1\), X0 has"),
    ([A, A], {"axis": 4}, ShapeError, "axis = 4 is not an axis of Y, which has 4 dimensions"),
    ([A, A], {"axis": -6, "add_axis": 1}, ShapeError, "axis = -6 is not an axis of Y, which has 5 dimensions"),
    ([A[0], A[0]], {"order": "NHWC"}, ShapeError, "order = 'NHWC' means axis = 3, which is not an axis of Y"),
    ([A[0, 0, 0, 0]], {"axis": 0}, ShapeError, "axis = 0 is not an axis of Y, which has 0 dimensions"),
    ([A, A.astype("d")], {}, DTypeError, "X1 is float64, X0 is float32"),
    ([A, B], {"axis": 1, "order": "NCHW"}, ArgumentError, "axis = 1 and order = 'NCHW' both name an axis"),
    ([A, B], {"order": "CHWN"}, ArgumentError, "'order' = 'CHWN' is not one of"),
    ([A, B], {"outputs": 1}, SchemaError, "Concat has 1 outputs, it takes 2"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Concat", *inputs, **args)


def test_unknown_dimensions() -> None:
    schema = find_schema("Concat")
    op = schema.view(operator_def("Concat", ["a", "b", "c"], ["y", "i"]))
    partly = [TensorSpec(dims, DataType.FLOAT) for dims in ((None, 3, 5), (2, 4, None), (2, 1, 5))]
    assert schema.infer_specs(op, partly).specs[0] == TensorSpec((2, 8, 5), DataType.FLOAT)
    partly[1] = TensorSpec(None, DataType.FLOAT)
    assert schema.infer_specs(op, partly).specs[0] == TensorSpec((2, None, 5), DataType.FLOAT)
    nothing = [TensorSpec(None, DataType.FLOAT)] * 3
    assert schema.infer_specs(op, nothing).specs == (
        TensorSpec(None, DataType.FLOAT),
        TensorSpec((3,), DataType.INT32),
    )


def test_cost() -> None:
    schema = find_schema("Concat")
    op = schema.view(operator_def("Concat", ["a", "b"], ["y", "i"]))
    specs = [TensorSpec(dims, DataType.FLOAT) for dims in ((2, 3), (2, 4), (2, 7))]
    cost = schema.infer_cost(op, specs[:2], [specs[2], TensorSpec((2,), DataType.INT32)])
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (0, 56, 64)
