"""Transpose, NCHW2NHWC, NHWC2NCHW: each element looked up by its place; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def moved(*axes: int) -> Any:
    """Return a function whose result has at each place what its input has at the place with permuted coordinates."""

    def function(X: Array) -> Array:
        Y = np.empty([X.shape[axis] for axis in axes], X.dtype)
        for place in np.ndindex(*X.shape):
            Y[tuple(place[axis] for axis in axes)] = X[place]
        return Y

    return function


X = values(2, 3, 5, 4)

CASES = [
    Case("Transpose", [X], moved(3, 2, 1, 0), batched=(0,)),
    Case("Transpose", [X], moved(2, 3, 1, 0), {"axes": [2, 3, 1, 0]}, batched=(0,), id="axes"),
    Case("Transpose", [X[0, 0]], moved(0, 1), {"axes": [0, 1]}, id="nothing to do"),
    Case("Transpose", [X[0, 0, 0, 0]], moved(), id="rank 0"),
    Case("Transpose", [X[0].astype("d")], moved(2, 1, 0), id="float64"),
    # Integers have no derivative.
    Case("Transpose", [np.arange(6).reshape(2, 3)], moved(1, 0), gradient=False, id="int64"),
    Case("Transpose", [np.arange(6, dtype="i").reshape(2, 3)], moved(1, 0), gradient=False, id="int32"),
    Case("NCHW2NHWC", [X], moved(0, 2, 3, 1), batched=(0,)),
    Case("NCHW2NHWC", [X[0]], moved(0, 2, 1), id="one spatial axis"),
    Case("NHWC2NCHW", [X], moved(0, 3, 1, 2), batched=(0,)),
    Case("NHWC2NCHW", [X[..., None]], moved(0, 4, 1, 2, 3), id="three spatial axes"),
]


@on_all_engines(CASES)
def test_transpose(case: Case, engine: str) -> None:
    check_op(case, engine)


@settings(max_examples=20)
@given(st.permutations(range(4)))
def test_the_gradient_turns_axes_round(axes: list[int]) -> None:
    schema = find_schema("Transpose")
    op = schema.view(operator_def("Transpose", ["x"], ["y"], axes=axes))
    (back,), _ = gradient_for_op(op, ["dy"])
    assert schema.infer_specs(schema.view(back), schema.infer_specs(op, [SPEC]).specs).specs == (SPEC,)


SPEC = TensorSpec((2, 3, 5, None), DataType.FLOAT)


def test_the_gradient_keeps_other_arguments() -> None:
    op = find_schema("Transpose").view(operator_def("Transpose", ["x"], ["y"], axes=[1, 2, 0], order="NCHW"))
    (back,), gradients = gradient_for_op(op, ["dy"])
    assert [(argument.name, list(argument.ints)) for argument in back.arg] == [("axes", [2, 0, 1]), ("order", [])]
    assert gradients == ["x_grad"]


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Transpose", [X], {"axes": [1, 0]}, ShapeError, r"axes = \[1, 0\] has 2 axes, X has 4 dimensions"),
    ("Transpose", [X], {"axes": [0, 1, 1, 2]}, ArgumentError, r"axes = \[0, 1, 1, 2\] is not a permutation"),
    ("Transpose", [X], {"axes": [-1, 0, 1, 2]}, ArgumentError, "'axes' = -1 is below its minimum 0"),
    ("Transpose", [X > 0], {}, DTypeError, "X is bool, it must be float32 or float64 or int32 or int64"),
    ("NCHW2NHWC", [X[0, 0]], {}, ShapeError, r"X has 2 dimensions \(5, 4\), it needs images, channels and one more"),
    ("NHWC2NCHW", [X[0, 0]], {}, ShapeError, "X has 2 dimensions"),
    ("NHWC2NCHW", [X.astype("d")], {}, DTypeError, "X is float64, it must be float32"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


@pytest.mark.parametrize(
    ("type", "dims"), [("Transpose", (None, 5, 3, 2)), ("NCHW2NHWC", (2, 5, None, 3)), ("NHWC2NCHW", (2, None, 3, 5))]
)
def test_unknown_dimensions(type: str, dims: tuple[int | None, ...]) -> None:
    schema, nothing = find_schema(type), TensorSpec(None, DataType.FLOAT)
    op = schema.view(operator_def(type, ["x"], ["y"]))
    assert schema.infer_specs(op, [SPEC]).specs == (TensorSpec(dims, DataType.FLOAT),)
    assert schema.infer_specs(op, [nothing]).specs == (nothing,)
