"""Split, DepthSplit and SplitByLengths: against slices; with parts whose gradient is missing; and what is refused."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tazza.workspace import Workspace
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def cut(axis: int, *extents: int) -> Any:
    """Return a function that cuts its first input into parts of these extents."""

    def function(X: Array, *_: Array) -> list[Array]:
        return [X.take(range(end - n, end), axis) for n, end in zip(extents, accumulate(extents), strict=True)]

    return function


def unstacked(axis: int, count: int) -> Any:
    """Return a function that gives one part for each element along an axis, without that axis."""

    def function(X: Array, *_: Array) -> list[Array]:
        return [X.take(i, axis) for i in range(count)]

    return function


X = values(2, 6, 5, 4)
SIZES = np.array([1, 3, 2], np.int32)

CASES = [
    Case("Split", [X], cut(1, 2, 2, 2), outputs=3, batched=(0,)),
    Case("Split", [X], cut(1, 6), outputs=1, id="one part"),
    Case("Split", [X], cut(1, 1, 5), {"split": [1, 5]}, outputs=2, batched=(0,), id="split"),
    Case("Split", [X], cut(1, 0, 6), {"split": [0, 6]}, outputs=2, id="an empty part"),
    Case("Split", [X, SIZES], cut(1, 1, 3, 2), outputs=3, batched=(0,), id="lengths"),
    Case("Split", [X, SIZES.reshape(3, 1)], cut(1, 1, 3, 2), outputs=3, id="lengths of rank 2"),
    Case("Split", [X], cut(3, 2, 2), {"order": "NHWC"}, outputs=2, id="NHWC"),
    Case("Split", [X], cut(0, 1, 1), {"axis": -4}, outputs=2, id="axis -4"),
    Case("Split", [X], unstacked(3, 4), {"axis": -1, "add_axis": 1}, outputs=4, id="add_axis"),
    Case("Split", [X], cut(1, 2, 2, 2), {"add_axis": 1}, outputs=3, id="add_axis counts beside axis alone"),
    Case("Split", [X, SIZES[:2] * 7], unstacked(0, 2), {"axis": 0, "add_axis": 1}, 2, id="add_axis, lengths"),
    Case("SplitByLengths", [X, SIZES], cut(1, 1, 3, 2), outputs=3, id="lengths"),
    Case("SplitByLengths", [X, SIZES.repeat(2) // 2], cut(3, 0, 2, 2), {"order": "NHWC"}, 3, id="several for each"),
    Case("SplitByLengths", [X, SIZES[:2]], cut(3, 1, 3), {"axis": -1, "use_scaling_lengths": 1}, 2, id="scaled by 1"),
    Case("SplitByLengths", [X, SIZES[::2] * 1], cut(1, 2, 4), {"use_scaling_lengths": 1}, 2, id="scaled by 2"),
    Case(
        "SplitByLengths",
        [X, SIZES[:2] * 0],
        cut(1, 0, 0),
        {"use_scaling_lengths": 1},
        2,
        gradient=False,  # what is lost cannot be joined
        id="scaled nothing",
    ),
    # What is no float has no derivative.
    Case("Split", [np.arange(6).reshape(2, 3)], cut(0, 1, 1), {"axis": 0}, 2, gradient=False, id="int64"),
    Case("Split", [np.array([b"a", b"bc"], object)], cut(0, 1, 1), {"axis": 0}, 2, gradient=False, id="text"),
    Case("DepthSplit", [X], cut(1, 2, 4), {"split": [2, 4]}, outputs=2, batched=(0,)),
]


@on_all_engines(CASES)
def test_split(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X], {"outputs": 4}, ShapeError, "6 elements of axis 1 do not divide into 4 outputs"),
    ([X], {"split": [1, 4], "outputs": 2}, ShapeError, r"split = \[1, 4\] adds up to 5, axis 1 of X has 6 elements"),
    ([X, SIZES + 1], {"outputs": 3}, ShapeError, r"lengths = \[2, 4, 3\] adds up to 9, axis 1 of X has 6"),
    ([X, SIZES - 2], {"outputs": 3}, ShapeError, r"lengths = \[-1, 1, 0\], no extent can be negative"),
    ([X, SIZES], {"outputs": 2}, ShapeError, "lengths has 3 elements for 2 outputs"),
    ([X], {"axis": 4, "outputs": 2}, ShapeError, "axis = 4 is not an axis of X"),
    ([X], {"axis": 2, "add_axis": 1, "outputs": 3}, ShapeError, "axis 2 of X has 5 elements for 3 outputs"),
    ([X, SIZES.astype("l")], {"outputs": 3}, DTypeError, "lengths is int64, it must be int32"),
    ([X], {"split": [1, 4, 1], "outputs": 2}, ArgumentError, "has 3 extents for 2 outputs"),
    ([X], {"split": [-1, 7], "outputs": 2}, ArgumentError, "'split' = -1 is below its minimum 0"),
    ([X, SIZES], {"split": [1, 3, 2], "outputs": 3}, ArgumentError, "an input lengths too"),
    ([X], {"axis": 1, "order": "NCHW", "outputs": 2}, ArgumentError, "both name an axis"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Split", *inputs, **args)


def test_a_part_that_is_not_used_has_a_gradient_of_zeros() -> None:
    """behaviours.md row 36: Caffe2 leaves the part out, so that its gradient has the wrong shape."""
    forward = operator_def("Split", ["x"], ["a", "b", "c"], axis=1, split=[1, 2, 3])
    emitted, gradients = backward_pass([forward], {"b": "b_grad"})
    ws = Workspace()
    ws.feed("x", values(2, 6))
    ws.feed("b_grad", values(2, 2))
    for op in (forward, *emitted):
        ws.run_operator(op)
    wanted = np.zeros((2, 6), np.float32)
    wanted[:, 1:3] = values(2, 2)
    np.testing.assert_array_equal(ws.fetch(str(gradients["x"])), wanted)


def test_no_gradient_of_any_part() -> None:
    op = find_schema("Split").view(operator_def("Split", ["x"], ["a", "b"]))
    assert gradient_for_op(op, [None, None]) == ([], [None])


def test_unknown_dimensions() -> None:
    schema = find_schema("Split")
    op = schema.view(operator_def("Split", ["x"], ["a", "b"]))
    given = schema.view(operator_def("Split", ["x"], ["a", "b"], split=[1, 2]))
    listed = schema.view(operator_def("Split", ["x", "n"], ["a", "b"]))
    spec, lengths = TensorSpec((2, None, 3), DataType.FLOAT), TensorSpec((2,), DataType.INT32)
    assert schema.infer_specs(op, [spec]).specs == (spec, spec)
    assert [s.dims for s in schema.infer_specs(given, [spec]).specs if isinstance(s, TensorSpec)] == [
        (2, 1, 3),
        (2, 2, 3),
    ]
    found = schema.infer_specs(listed, [TensorSpec((2, 3), DataType.FLOAT), lengths])
    assert (found.specs, found.reads) == ((TensorSpec((2, None), DataType.FLOAT),) * 2, {"lengths"})
    nothing = TensorSpec(None, DataType.FLOAT)
    assert schema.infer_specs(op, [nothing]).specs == (nothing, nothing)


def test_lengths_that_do_not_fit() -> None:
    refused: list[tuple[list[int], int, str]] = [
        ([1, 2], 0, "lengths add up to 3, axis 1 of X has 6 elements"),
        ([1, 3], 1, "it must be a multiple"),
        ([7, -1], 0, "no extent can be negative"),
        ([1, 2, 3], 0, "there are 3 lengths for 2 outputs"),
    ]
    for lengths, scaled, text in refused:
        with pytest.raises(ShapeError, match=text):
            run_op("SplitByLengths", X, np.array(lengths, np.int32), outputs=2, use_scaling_lengths=scaled)
