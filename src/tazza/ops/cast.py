"""Conversion of element types: Cast. X and Y have one shape S."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tazza.errors import ArgumentError, DTypeError, GradientError
from tazza.operator import ArgSpec, Array, GradientRequest, OpView, blob, kernel, schema, stored_fields
from tazza.proto import Argument, OperatorDef, TensorProto
from tazza.tensor import DataType, TensorSpec

CASTABLE = frozenset(DataType) - {DataType.STRING, DataType.FLOAT16, DataType.BFLOAT16}
"""What is converted; to text as well."""


@dataclass(frozen=True, slots=True)
class DataTypeArg(ArgSpec):
    """Declaration of an argument that holds an element type: its number or name in TensorProto.DataType."""

    def read(self, argument: Argument) -> DataType:
        """Return the element type that `argument` names.

        Raises:
            ArgumentError: it is stored in another field, or names no type that a tensor can have.
        """
        present = stored_fields(argument)
        if present not in (["i"], ["s"]):
            stored = " and ".join(present) if present else "nothing"
            raise ArgumentError(
                f"argument {self.name!r} wants a number or a name (field 'i' or 's'), it is stored as {stored}",
                hint="1 or 'float', for instance; 1.0 is neither",
            )
        value = argument.i if present == ["i"] else argument.s.decode("utf-8", errors="replace").upper()
        found = _BY_NUMBER.get(value) if isinstance(value, int) else _BY_NAME.get(value)
        if found is None:
            known = ", ".join(f"{number} {name.lower()}" for name, number in _NUMBERS.items())
            raise ArgumentError(f"argument {self.name!r} = {value!r} is no element type", hint=f"known: {known}")
        return found


def data_type_arg(name: str, default: Any, doc: str = "") -> DataTypeArg:
    """Declare an argument that holds an element type; `default` is a DataType, None or REQUIRED."""
    return DataTypeArg(name, DataType, default, None, None, None, doc)


# BYTE (3), which old files use for uint8 data, is no type to convert to: Caffe2 ends the process there.
_NUMBERS = {TensorProto.DataType.Name(member.proto): member.proto for member in DataType if member.proto is not None}
_BY_NUMBER = {number: DataType.from_proto(number) for number in _NUMBERS.values()}
_BY_NAME = {name: _BY_NUMBER[number] for name, number in _NUMBERS.items()}

CAST = schema(
    "Cast",
    """Y = X with the elements converted to the type `to`.

    To integers, floats lose their fraction; what does not fit, and NaN, gives the smallest int32 or int64, as x86
    processors do, and the low bits of it in smaller types. Integers that do not fit lose their high bits. Anything but 0
    is true. Text is what C's printf makes with %d and %f; it cannot be converted back. The names of types may be in any
    case. The gradient needs `from_type`, which has no effect otherwise.""",
    inputs=[blob("X", CASTABLE, "*S")],
    outputs=[blob("Y", dims="*S")],
    args=[
        data_type_arg("to", DataType.FLOAT, "element type of Y, as a number or name of TensorProto.DataType"),
        data_type_arg("from_type", None, "element type of X, and so of its gradient"),
    ],
    onnx="Cast",
    source="Caffe2",
    example="""
    >>> run("Cast", [-1.7, 2.5], to="int32")
    array([-1,  2], dtype=int32)
    """,
)


@CAST.validate
def cast_validate(op: OpView) -> None:
    if op.to is DataType.FLOAT16:
        raise op.error(DTypeError, "nothing is converted to float16 here", "use FloatToHalf")


@CAST.infer
def cast_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return TensorSpec(X.dims, op.to)


def cast_gradient(g: GradientRequest) -> list[OperatorDef]:
    if g.op.from_type is None:
        raise g.op.error(GradientError, "the gradient needs the argument 'from_type'", "give the element type of X")
    return g.emit("Cast", [g.dY], [g.dX], to=g.op.from_type.proto, from_type=g.op.to.proto)


CAST.gradient(cast_gradient, copy_arguments=False)


@kernel(CAST)
def cast(X: Array, Y: Array) -> None:
    if Y.dtype.kind == "O":
        Y[...] = np.array([_text(value) for value in X.reshape(-1).tolist()], object).reshape(Y.shape)
        return
    with np.errstate(invalid="ignore", over="ignore"):
        # What a float gives that does not fit is undefined in C; going through int32 makes it what Caffe2 gives.
        through = X.astype(np.int32) if X.dtype.kind == "f" and Y.dtype.kind in "iu" and Y.itemsize < 4 else X
        np.copyto(Y, through, casting="unsafe")


def _text(value: bool | int | float) -> bytes:
    return (f"{value:f}" if isinstance(value, float) else str(int(value))).encode()
