"""Fills with one value: ConstantFill; and what all operators that fill a tensor share: how they get its shape.

Three ways to a shape: the argument `shape`; the shape of the input X; the numbers in X, with `input_as_shape`. To the
latter two `extra_shape` is added at the end. Source of the rules: runs of Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import Array, Cost, Dims, Effects, OpView, Role, arg, blob, ends, kernel, schema
from tazza.ops.shape.axis import unknown_dims
from tazza.tensor import DataType, TensorSpec

SHAPE_ARGS = (
    arg("shape", list[int], [], minimum=0, doc="S, when there is no input; empty for rank 0"),
    arg("extra_shape", list[int], [], minimum=0, doc="dimensions behind those of the input"),
    arg("input_as_shape", bool, False, doc="X (int64, rank 1) holds the shape, rather than has it"),
)
SHAPE_DOC = "has the shape, or with input_as_shape holds it"
NO_GRADIENT = ends("what is filled in does not depend on the input")


def check_shape_args(op: OpView) -> None:
    """Refuse arguments that contradict the number of inputs.

    Raises:
        ArgumentError: `shape` beside an input, or `extra_shape` or `input_as_shape` without one.
    """
    if op.definition.input and op.shape:
        raise op.error(ArgumentError, f"shape = {op.shape} is given, and an input too", hint="drop one of them")
    for name in ("extra_shape", "input_as_shape"):
        if not op.definition.input and op.arguments[name]:
            raise op.error(ArgumentError, f"{name} = {op.arguments[name]} needs an input", hint="put it into shape")


def fill_dims(op: OpView, X: TensorSpec | None) -> Dims | None:
    """Return S, with None for what is not known yet; looks at the value of X when that holds the shape."""
    if X is None:
        return tuple(op.shape)
    if not op.input_as_shape:
        return None if X.dims is None else (*X.dims, *op.extra_shape)
    op.require(X.dtype is DataType.INT64, f"with input_as_shape X must be int64, it is {X.dtype}", "insert a Cast")
    if X.dims is None:
        return None
    op.require(len(X.dims) == 1 and X.dims[0] != 0, f"with input_as_shape X must be a list of sizes, it is {X}")
    sizes = op.value_of("X")
    if sizes is None:
        dims = unknown_dims(op, "X", X.dims[0])
        return None if dims is None else (*dims, *op.extra_shape)
    op.require(bool(np.all(sizes >= 0)), f"X holds the shape {sizes.tolist()}, a size cannot be negative")
    return (*sizes.tolist(), *op.extra_shape)


def fill_cost(op: OpView, Y: TensorSpec) -> Cost:
    """Writing Y is all there is to do."""
    del op
    return Cost(flops=0, bytes_read=0, bytes_written=Y.nbytes)


STORED_AS = {
    DataType.FLOAT: float,
    DataType.DOUBLE: float,
    DataType.STRING: bytes,
    DataType.BOOL: int,
    DataType.INT8: int,
    DataType.UINT8: int,
    DataType.INT16: int,
    DataType.UINT16: int,
    DataType.INT32: int,
    DataType.INT64: int,
}
"""Element types that ConstantFill makes, and the Python type of their `value`."""

CONSTANT_FILL = schema(
    "ConstantFill",
    """Y = value, everywhere.

    Without `dtype` the type of `value` decides: a float gives float32, an int or a bool int64. The element type
    of X does not count. A second input V, of one element and the type of Y, takes the place of `value`.""",
    inputs=[
        blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC),
        blob("V", optional=True, role=Role.PARAMETER, doc="the value, of one element"),
    ],
    outputs=[blob("Y")],
    args=[
        *SHAPE_ARGS,
        arg(
            "value",
            float | int | bytes,
            None,
            doc="an int for integers and bool, a float for floats; 0 or empty text when missing",
        ),
        arg(
            "dtype", int, None, choices=tuple(dtype.proto for dtype in STORED_AS), doc="number of TensorProto.DataType"
        ),
    ],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("ConstantFill", shape=[2], value=3)
    array([3, 3])
    >>> run("ConstantFill", [[1, 2]], value=0.5)
    array([[0.5, 0.5]], dtype=float32)
    """,
)


def fill_dtype(op: OpView) -> DataType:
    """Return the element type that `dtype`, or else the type of `value`, says."""
    if op.dtype is not None:
        return DataType.from_proto(op.dtype)
    return DataType.INT64 if isinstance(op.value, int) else DataType.FLOAT


def check_value(op: OpView) -> None:
    """Refuse a `value` that the element type cannot hold.

    Raises:
        ArgumentError: it is of another kind, or too large.
    """
    dtype = fill_dtype(op)
    if op.value is None:
        return
    wanted = STORED_AS[dtype]
    if not isinstance(op.value, wanted):
        relation = f"value = {op.value!r} is of type {type(op.value).__name__}, {dtype} needs {wanted.__name__}"
        raise op.error(ArgumentError, relation, hint="write 2.0 for floats and 2 for integers; text needs dtype 4")
    if isinstance(op.value, int) and dtype is not DataType.BOOL:
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= op.value <= limits.max:
            raise op.error(
                ArgumentError, f"value = {op.value} is not between {limits.min} and {limits.max}, which {dtype} holds"
            )


@CONSTANT_FILL.validate
def constant_fill_validate(op: OpView) -> None:
    check_shape_args(op)
    dtype = fill_dtype(op)
    if op.has_input("V") and dtype is DataType.STRING:
        raise op.error(ArgumentError, "text cannot be taken from V", hint="give it as the argument value")
    check_value(op)


@CONSTANT_FILL.infer
def constant_fill_infer(op: OpView, X: TensorSpec | None, V: TensorSpec | None) -> TensorSpec:
    dtype = fill_dtype(op)
    if V is not None:
        op.require(V.dtype is dtype, f"V is {V.dtype}, Y is {dtype}", "set dtype to that of V")
        op.require(
            not V.shape_known or V.size == 1, f"V has {V.size if V.shape_known else '?'} elements, it must have 1"
        )
    return TensorSpec(fill_dims(op, X), dtype)


@CONSTANT_FILL.cost
def constant_fill_cost(op: OpView, X: TensorSpec | None, V: TensorSpec | None, Y: TensorSpec) -> Cost:
    del X, V
    return fill_cost(op, Y)


@kernel(CONSTANT_FILL)
def constant_fill(op: OpView, V: Array | None, Y: Array) -> None:
    if V is not None:
        Y[...] = V.reshape(())
    elif op.value is not None:
        Y[...] = op.value
    else:
        Y[...] = b"" if Y.dtype == np.object_ else 0
