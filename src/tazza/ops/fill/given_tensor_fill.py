"""Fills with given values: GivenTensorFill and its kin, which differ in the element type. For shapes see `ops.fill`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.operator import (
    Array,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    family,
    kernel,
    schema,
)
from tazza.ops.fill.fill import NO_GRADIENT, SHAPE_ARGS, SHAPE_DOC, check_shape_args, fill_cost, fill_dims
from tazza.tensor import DataType, TensorSpec

FLOATS: Any = Sequence[float]
INTS: Any = Sequence[int]
TEXTS: Any = Sequence[bytes]

STORED_AS = {
    DataType.FLOAT: FLOATS,
    DataType.DOUBLE: FLOATS,
    DataType.INT16: INTS,
    DataType.INT32: INTS,
    DataType.INT64: INTS,
    DataType.BOOL: INTS,
    DataType.STRING: TEXTS,
}
"""Element types that these operators make, and how their `values` are stored."""


def _check_kind(op: OpView, dtype: DataType) -> None:
    kinds = {FLOATS: float, INTS: int, TEXTS: bytes}
    wanted = kinds[STORED_AS[dtype]]
    if len(op.values) > 0 and not isinstance(op.values[0], wanted):
        found = type(op.values[0]).__name__
        raise op.error(ArgumentError, f"values are of type {found}, {dtype} needs {wanted.__name__}", hint="set dtype")


def given_spec(op: OpView, X: TensorSpec | None, count: int, dtype: DataType) -> TensorSpec:
    """Return the spec of Y, which must have `count` elements."""
    spec = TensorSpec(fill_dims(op, X), dtype)
    if spec.shape_known:
        relation = f"{count} values are given for the {spec.size} elements of shape {tuple(spec.shape)}"
        op.require(spec.size == count, relation, "give one value for each element")
    return spec


def given_values(op: OpView, dtype: DataType) -> Array:
    """Return `values` as an array of rank 1.

    Raises:
        ArgumentError: a value is out of the range of `dtype`.
    """
    if dtype is DataType.STRING:
        texts = np.empty(len(op.values), np.object_)
        texts[:] = list(op.values)
        return texts
    if dtype.is_float:
        return np.asarray(op.values, dtype.numpy)
    wide = np.array(op.values, np.int64)
    if dtype is DataType.BOOL:
        return wide != 0
    narrow = wide.astype(dtype.numpy)
    if not np.array_equal(narrow, wide):
        worst = int(wide[narrow != wide][0])
        raise op.error(
            ArgumentError, f"{worst} among the values is out of the range of {dtype}", hint="use a wider type"
        )
    return narrow


def given_tensor_cost(op: OpView, X: TensorSpec | None, Y: TensorSpec) -> Cost:
    del X
    return fill_cost(op, Y)


def given_tensor(op: OpView, Y: Array) -> None:
    Y[...] = given_values(op, DataType.of(Y)).reshape(Y.shape)


@dataclass(frozen=True, slots=True)
class Given:
    """Elements of one type; with None the argument `dtype` says which."""

    dtype: DataType | None
    example: str


@family(
    {
        "GivenTensorFill": Given(
            None,
            """
            >>> run("GivenTensorFill", shape=[2, 1], values=[0.5, 2.0])
            array([[0.5],
                   [2. ]], dtype=float32)
            """,
        ),
        "GivenTensorDoubleFill": Given(
            DataType.DOUBLE,
            """
            >>> run("GivenTensorDoubleFill", shape=[2], values=[0.5, 2.0])
            array([0.5, 2. ])
            """,
        ),
        "GivenTensorIntFill": Given(
            DataType.INT32,
            """
            >>> run("GivenTensorIntFill", shape=[2], values=[3, -1])
            array([ 3, -1], dtype=int32)
            """,
        ),
        "GivenTensorInt64Fill": Given(
            DataType.INT64,
            """
            >>> run("GivenTensorInt64Fill", shape=[2], values=[3, -1])
            array([ 3, -1])
            """,
        ),
        "GivenTensorInt16Fill": Given(
            DataType.INT16,
            """
            >>> run("GivenTensorInt16Fill", shape=[2], values=[3, -1])
            array([ 3, -1], dtype=int16)
            """,
        ),
        "GivenTensorBoolFill": Given(
            DataType.BOOL,
            """
            >>> run("GivenTensorBoolFill", shape=[2], values=[True, False])
            array([ True, False])
            """,
        ),
        "GivenTensorStringFill": Given(
            DataType.STRING,
            """
            >>> run("GivenTensorStringFill", shape=[2], values=["a", "bc"])
            array([b'a', b'bc'], dtype=object)
            """,
        ),
    }
)
def given_tensor_fills(type: str, row: Given) -> OpSchema:
    """A fill with given values of one element type."""
    dtype = row.dtype
    values = FLOATS | INTS | TEXTS if dtype is None else STORED_AS[dtype]
    choices = tuple(known.proto for known in STORED_AS)
    number = arg("dtype", int, DataType.FLOAT.proto, choices=choices, doc="number of TensorProto.DataType")
    made = schema(
        type,
        f"Y = values, in row-major order, as {'dtype says' if dtype is None else dtype}.",
        inputs=[blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC)],
        outputs=[blob("Y")],
        args=[arg("values", values, doc="one for each element"), *SHAPE_ARGS, *([number] if dtype is None else [])],
        in_place={"Y": "X"},
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=row.example,
    )
    made.cost(given_tensor_cost)
    kernel(made)(given_tensor)

    @made.validate
    def given_tensor_validate(op: OpView) -> None:
        check_shape_args(op)
        if dtype is None:
            _check_kind(op, DataType.from_proto(op.dtype))

    @made.infer
    def given_tensor_infer(op: OpView, X: TensorSpec | None) -> TensorSpec:
        return given_spec(op, X, len(op.values), DataType.from_proto(op.dtype) if dtype is None else dtype)

    return made


GIVEN_TENSOR_BYTE_STRING_TO_UINT8_FILL = schema(
    "GivenTensorByteStringToUInt8Fill",
    "Y = the bytes of the one string in values, as uint8.",
    inputs=[blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC)],
    outputs=[blob("Y", DataType.UINT8)],
    args=[arg("values", list[bytes], doc="one string, with a byte for each element"), *SHAPE_ARGS],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("GivenTensorByteStringToUInt8Fill", shape=[3], values=["abc"])
    array([97, 98, 99], dtype=uint8)
    """,
)


GIVEN_TENSOR_BYTE_STRING_TO_UINT8_FILL.cost(given_tensor_cost)


@GIVEN_TENSOR_BYTE_STRING_TO_UINT8_FILL.validate
def given_bytes_validate(op: OpView) -> None:
    check_shape_args(op)
    if len(op.values) != 1:
        raise op.error(ArgumentError, f"values holds {len(op.values)} strings, it must hold 1", hint="join them")


@GIVEN_TENSOR_BYTE_STRING_TO_UINT8_FILL.infer
def given_bytes_infer(op: OpView, X: TensorSpec | None) -> TensorSpec:
    return given_spec(op, X, len(op.values[0]), DataType.UINT8)


@kernel(GIVEN_TENSOR_BYTE_STRING_TO_UINT8_FILL)
def given_bytes(op: OpView, Y: Array) -> None:
    Y[...] = np.frombuffer(op.values[0], np.uint8).reshape(Y.shape)
