"""Reshape, Flatten, FlattenToVec, Squeeze, ExpandDims, ResizeLike: the elements in order, shapes by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError, SchemaError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def shaped(*shape: int) -> Any:
    """Return a function that deals the elements of its first input out into a shape, one after the other."""

    def function(X: Array, *_: Array) -> Array:
        Y = np.empty(shape, X.dtype)
        for place, element in zip(np.ndindex(*shape), X.flat, strict=True):
            Y[place] = element
        return Y

    return function


def reshaped(*shape: int, of: type = np.int64) -> Any:
    """Return the same with the old shape as a second output."""

    def function(X: Array, *_: Array) -> list[Array]:
        return [shaped(*shape)(X), np.array(X.shape, of)]

    return function


X = values(2, 3, 4)
TEXT = np.array([[b"a", b"longer"]], object)

CASES = [
    Case("Reshape", [X], reshaped(4, 6), {"shape": [4, 6]}),
    Case("Reshape", [X], reshaped(24), {"shape": [-1]}, id="vector"),
    Case("Reshape", [X], reshaped(2, 6, 2), {"shape": [0, -1, 2]}, id="0 copies, -1 is the rest"),
    Case("Reshape", [X], reshaped(2, 3, 4, 1), {"shape": [2, 0, 0, -1]}, id="nothing left for -1"),
    Case("Reshape", [X, np.array([8, -1])], reshaped(8, 3), id="by input"),
    Case("Reshape", [X, np.array([8, -1], "i")], reshaped(8, 3, of=np.int32), id="by input of int32"),
    Case("Reshape", [X[0, 0, 0]], reshaped(1, 1), {"shape": [1, -1]}, id="rank 0"),
    Case("Reshape", [X[0, 0, :1]], reshaped(), {"shape": []}, id="to rank 0"),
    Case("Reshape", [values(2, 0)], reshaped(0, 0), {"shape": [0, -1]}, id="empty, 0 is 0"),
    Case("Reshape", [values(2, 0)], reshaped(3, 0), {"shape": [3, -1]}, id="empty, -1 is 0"),
    Case("Reshape", [values(2, 0)], reshaped(2, 0, 7), {"shape": [2, 0, 7]}, id="empty, longer"),
    # Text has no derivative.
    Case("Reshape", [TEXT], reshaped(2, 1), {"shape": [2, 1]}, gradient=False, id="text"),
    Case("Flatten", [X], shaped(2, 12), batched=(0,)),
    Case("Flatten", [X], shaped(1, 24), {"axis": 0}, id="axis 0"),
    Case("Flatten", [X], shaped(24, 1), {"axis": 3}, id="axis 3"),
    Case("Flatten", [X[0, 0, 0]], shaped(1, 1), {"axis": 0}, id="rank 0"),
    Case("FlattenToVec", [X], shaped(24), batched=(0,)),
    Case("FlattenToVec", [TEXT], shaped(2), gradient=False, id="text"),
    Case("Squeeze", [values(2, 1, 3, 1)], shaped(2, 3), {"dims": [3, 1, 3]}, batched=(0,)),
    Case("Squeeze", [values(1, 1)], shaped(), {"dims": [0, 1]}, id="to rank 0"),
    Case("ExpandDims", [values(2, 3)], shaped(1, 2, 1, 3), {"dims": [0, 2]}),
    Case("ExpandDims", [values(2, 3)], shaped(2, 3, 1, 1), {"dims": [3, 2]}, id="at the end"),
    Case("ExpandDims", [values(1)[0]], shaped(1), {"dims": [0]}, id="rank 0"),
    # Caffe2 forbids its gradient.
    Case("ResizeLike", [X, np.zeros((6, 4), "i")], shaped(6, 4), gradient=False),
]


@on_all_engines(CASES)
def test_reshape(case: Case, engine: str) -> None:
    check_op(case, engine)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.data())
def test_old_shape_brings_it_back(dims: list[int], data: st.DataObject) -> None:
    size = int(np.prod(dims))
    rows = data.draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0] or [1]))
    X = np.arange(size, dtype=np.float32).reshape(dims)
    Y, old = run_op("Reshape", X, shape=[rows, -1])
    assert Y.shape == (rows, size // rows)
    if size:  # of an empty tensor, 0 in a shape is 0 and -1 is 0 too
        np.testing.assert_array_equal(run_op("Reshape", Y, old)[0], X)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Reshape", [X], {"shape": [5, -1]}, ShapeError, r"X \(2, 3, 4\) has 24 elements, .* a multiple of 5"),
    ("Reshape", [X], {"shape": [5, 5]}, ShapeError, r"X \(2, 3, 4\) has 24 elements, the shape \[5, 5\] has 25"),
    ("Reshape", [X], {"shape": [2, -1, 4, 0]}, ShapeError, "has 24 elements, .* has none"),
    ("Reshape", [values(2, 0)], {"shape": [4, 5]}, ShapeError, "has 0 elements, .* has 20"),
    ("Reshape", [X], {"shape": [-1, -1]}, ArgumentError, "leaves more than one size open"),
    ("Reshape", [X, np.array([-1, -1])], {}, ShapeError, "leaves more than one size open"),
    ("Reshape", [X, np.array([-2, 12])], {}, ShapeError, "has a size below -1"),
    ("Reshape", [X], {"shape": [-2, 12]}, ArgumentError, "'shape' = -2 is below its minimum -1"),
    ("Reshape", [X], {}, ArgumentError, "no shape"),
    ("Reshape", [X, np.array([24])], {"shape": [24]}, ArgumentError, "and an input new_shape too"),
    ("Reshape", [X, np.array([[24]])], {}, ShapeError, r"new_shape has the shape \(1, 1\), it must be a list"),
    ("Reshape", [X, np.array([24.0], "f")], {}, DTypeError, "new_shape is float32, it must be int32 or int64"),
    ("Reshape", [X], {"shape": [24], "outputs": 1}, SchemaError, "Reshape has 1 outputs, it takes 2"),
    ("Flatten", [X], {"axis": 4}, ShapeError, "axis = 4 is behind the last of X, which has 3 dimensions"),
    ("Flatten", [X], {"axis": -1}, ArgumentError, "'axis' = -1 is below its minimum 0"),
    ("FlattenToVec", [X[0, 0, 0]], {}, ShapeError, "X has 0 dimensions, it needs at least 1"),
    ("Squeeze", [X], {"dims": [1]}, ShapeError, r"axis 1 of X \(2, 3, 4\) has the size 3, not 1"),
    ("Squeeze", [X], {"dims": [3]}, ShapeError, r"dims = \[3\], X has 3 dimensions"),
    ("Squeeze", [X], {"dims": []}, ArgumentError, r"dims = \[\] names no axis"),
    ("Squeeze", [X], {}, ArgumentError, "needs the argument 'dims'"),
    ("Squeeze", [X], {"dims": [-1]}, ArgumentError, "'dims' = -1 is below its minimum 0"),
    ("ExpandDims", [X], {"dims": [4]}, ShapeError, r"dims = \[4\] with X of 3 dimensions .* gives Y 4 dimensions"),
    ("ExpandDims", [X], {"dims": []}, ArgumentError, r"dims = \[\] names no axis"),
    ("ResizeLike", [X, values(5, 5)], {}, ShapeError, r"X \(2, 3, 4\) has not as many elements as like \(5, 5\)"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


EMITTED: list[tuple[OperatorDef, str, list[str], list[str], list[str]]] = [
    (operator_def("Reshape", ["x"], ["y", "o"], shape=[1]), "Reshape", ["dy", "o"], ["x_grad", "_x_grad_dims"], []),
    (operator_def("Flatten", ["x"], ["y"], axis=2), "ResizeLike", ["dy", "x"], ["x_grad"], ["axis"]),
    (operator_def("FlattenToVec", ["x"], ["y"]), "ResizeLike", ["dy", "x"], ["x_grad"], []),
    (operator_def("Squeeze", ["x"], ["y"], dims=[0]), "ExpandDims", ["dy"], ["x_grad"], ["dims"]),
    (operator_def("ExpandDims", ["x"], ["y"], dims=[0]), "Squeeze", ["dy"], ["x_grad"], ["dims"]),
]


@pytest.mark.parametrize(("forward", "type", "inputs", "outputs", "names"), EMITTED)
def test_emitted_gradients(
    forward: OperatorDef, type: str, inputs: list[str], outputs: list[str], names: list[str]
) -> None:
    (emitted,), _ = gradient_for_op(find_schema(forward.type).view(forward), ["dy", None][: len(forward.output)])
    found = emitted.type, list(emitted.input), list(emitted.output), [argument.name for argument in emitted.arg]
    assert found == (type, inputs, outputs, names)
    find_schema(type).view(emitted, strict=True)


def test_resize_like_has_no_gradient() -> None:
    with pytest.raises(GradientError, match="ResizeLike must not be asked"):
        gradient_for_op(find_schema("ResizeLike").view(operator_def("ResizeLike", ["x", "s"], ["y"])), ["dy"])


@pytest.mark.parametrize(
    ("definition", "inputs", "wanted"),
    [
        (operator_def("Reshape", ["x"], ["x", "o"], shape=[0, 3, -1]), [X], (2, 3, 4)),
        (operator_def("Reshape", ["x"], ["x", "o"], shape=[6, -1]), [X], (6, 4)),
        (operator_def("Reshape", ["x", "s"], ["x", "o"]), [X, np.array([2, 3, 4])], (2, 3, 4)),
        (operator_def("Reshape", ["x", "s"], ["x", "o"]), [X, np.array([-1])], (24,)),
        (operator_def("ExpandDims", ["x"], ["x"], dims=[0, 3]), [X], (1, 2, 3, 1, 4)),
        (operator_def("Squeeze", ["x"], ["x"], dims=[1]), [X.reshape(2, 1, 12)], (2, 12)),
    ],
)
def test_in_place(definition: OperatorDef, inputs: list[Array], wanted: tuple[int, ...]) -> None:
    results, _ = run(definition, [x.copy() for x in inputs])
    np.testing.assert_array_equal(results[0], X.reshape(wanted))
    if len(results) > 1:
        np.testing.assert_array_equal(results[1], X.shape)


@pytest.mark.parametrize("type", ["Flatten", "FlattenToVec"])
def test_not_in_place(type: str) -> None:
    with pytest.raises(SchemaError, match="cannot write Y in place of X"):
        find_schema(type).view(operator_def(type, ["x"], ["x"]))


def test_unknown_dimensions() -> None:
    reshape = find_schema("Reshape")
    by_argument = reshape.view(operator_def("Reshape", ["x"], ["y", "o"], shape=[0, -1, 6]))
    partly, nothing = TensorSpec((2, None, 4), DataType.FLOAT), TensorSpec(None, DataType.FLOAT)
    assert _dims(reshape.infer_specs(by_argument, [partly]).specs) == [(2, None, 6), (3,)]
    assert _dims(reshape.infer_specs(by_argument, [nothing]).specs) == [(None, None, 6), (None,)]
    by_input = reshape.view(operator_def("Reshape", ["x", "s"], ["y", "o"]))
    found = reshape.infer_specs(by_input, [partly, TensorSpec((2,), DataType.INT64)])
    assert (_dims(found.specs), found.reads) == ([(None, None), (3,)], {"new_shape"})
    assert _dims(reshape.infer_specs(by_input, [partly, TensorSpec(None, DataType.INT64)]).specs) == [None, (3,)]


@pytest.mark.parametrize(
    ("type", "args", "wanted"),
    [
        ("Flatten", {}, (2, None)),
        ("FlattenToVec", {}, (None,)),
        ("ExpandDims", {"dims": [1]}, (2, 1, None, 4)),
        ("Squeeze", {"dims": [1]}, (2, 4)),
    ],
)
def test_unknown_sizes(type: str, args: dict[str, Any], wanted: tuple[int | None, ...]) -> None:
    schema = find_schema(type)
    op = schema.view(operator_def(type, ["x"], ["y"], **args))
    assert _dims(schema.infer_specs(op, [TensorSpec((2, None, 4), DataType.FLOAT)]).specs) == [wanted]


def _dims(specs: Any) -> list[Any]:
    return [spec.dims for spec in specs]
