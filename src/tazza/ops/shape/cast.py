"""Conversion of element types: Cast. X and Y have one shape S."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.errors import ArgumentError, DTypeError, GradientError
from tazza.operator import Array, Effects, GradientRequest, OpView, arg, blob, kernel, schema
from tazza.proto import OperatorDef, TensorProto
from tazza.tensor import DataType, TensorSpec

CASTABLE = frozenset(DataType) - {DataType.STRING, DataType.FLOAT16, DataType.BFLOAT16}
"""What is converted; to text as well."""


# BYTE (3), which old files use for uint8 data, is no type to convert to: Caffe2 ends the process there.
NUMBERS = {member.proto: member for member in DataType if member.proto is not None}
NAMES = {TensorProto.DataType.Name(number): member for number, member in NUMBERS.items()}


def element_type(op: OpView, argument: str) -> DataType | None:
    """Return the element type that an argument (`int | str`) gives by its number or name in TensorProto.DataType.

    Names may be in any case. None where the argument is None.

    Raises:
        ArgumentError: there is no such type.
    """
    value: int | str | None = op.arguments[argument]
    if value is None:
        return None
    found = NUMBERS.get(value) if isinstance(value, int) else NAMES.get(value.upper())
    if found is None:
        known = ", ".join(f"{member.proto} {name.lower()}" for name, member in NAMES.items())
        raise op.error(ArgumentError, f"{argument} = {value!r} is no element type", f"known: {known}")
    return found


CAST = schema(
    "Cast",
    """Y = X with the elements converted to the type `to`.

    To integers, floats lose their fraction; what does not fit, and NaN, gives the smallest int32 or int64, as on x86
    processors, and the low bits of it in smaller types. Integers that do not fit lose their high bits. Anything but
    0 is true. Text is what C's printf makes with %d and %f; it cannot be converted back. The gradient needs
    `from_type`, which has no effect otherwise.""",
    inputs=[blob("X", CASTABLE, "*S")],
    outputs=[blob("Y", dims="*S")],
    args=[
        arg("to", int | str, TensorProto.FLOAT, doc="element type of Y: number or name in TensorProto.DataType"),
        arg("from_type", int | str, None, doc="element type of X, and so of its gradient"),
    ],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Cast", [-1.7, 2.5], to="int32")
    array([-1,  2], dtype=int32)
    """,
)


@CAST.validate
def cast_validate(op: OpView) -> None:
    if isinstance(op.from_type, str):  # a number that is no type is of no matter before there is a gradient
        element_type(op, "from_type")
    if element_type(op, "to") is DataType.FLOAT16:
        raise op.error(DTypeError, "to = float16 is not supported", "use FloatToHalf")


@CAST.infer
def cast_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    to = element_type(op, "to")
    assert to is not None, "it has a default"
    return TensorSpec(X.dims, to)


def cast_gradient(g: GradientRequest) -> list[OperatorDef]:
    to, from_type = element_type(g.op, "to"), element_type(g.op, "from_type")
    if to is None or from_type is None:
        raise g.op.error(GradientError, "the gradient needs the argument 'from_type'", "give the element type of X")
    return g.emit("Cast", [g.dY], [g.dX], to=from_type.proto, from_type=to.proto)


CAST.gradient(cast_gradient, copy_arguments=False)


@kernel(CAST)
def cast(X: Array, Y: Array) -> None:
    if Y.dtype.kind == "O":
        Y[...] = np.array([_text(value) for value in X.reshape(-1).tolist()], object).reshape(Y.shape)
        return
    rounds = X.dtype.kind == "f" and Y.dtype.kind in "iu"
    x = whole(X, np.dtype(np.int64 if Y.itemsize == 8 else np.int32)) if rounds else X
    with np.errstate(over="ignore"):  # a large float64 becomes an infinite float32
        np.copyto(Y, x, casting="unsafe")


def whole(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return floats as integers: without fraction, and the smallest number for those that do not fit."""
    low = float(np.iinfo(dtype).min)
    return np.where((x >= low) & (x < -low), x, low).astype(dtype)


def _text(value: bool | int | float) -> bytes:
    return (f"{value:f}" if isinstance(value, float) else str(int(value))).encode()
