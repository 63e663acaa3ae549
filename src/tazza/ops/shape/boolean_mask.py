"""Rows that a mask picks, and back: BooleanMask, BooleanMaskLengths, BooleanUnmask.

Letters: N rows, of which K are picked, those where `mask` (N) is true; S is the shape of a row.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    INDEX,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    GradientRequest,
    OpView,
    Role,
    blob,
    ends,
    kernel,
    pairs,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import require_one_type
from tazza.ops.sparse.segment import starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

MASK = blob("mask", DataType.BOOL, "N", role=Role.INDEX)
NO_GRADIENT = ends("Caffe2 ends the backward pass here")

BOOLEAN_MASK = schema(
    "BooleanMask",
    "Y = the rows of X where mask is true; places = where they stood.",
    inputs=[blob("X", None, "N *S"), MASK],
    outputs=[blob("Y", "X", dynamic=True), blob("places", DataType.INT64, dynamic=True, optional=True)],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("BooleanMask", [5.0, 6.0, 7.0], np.array([True, False, True]), outputs=2)
    (array([5., 7.], dtype=float32), array([0, 2]))
    """,
)
BOOLEAN_MASK_GRADIENT = schema(
    "BooleanMaskGradient",
    "dX = the rows of dY one after the other where mask is true, else 0; those that are left over are not read.",
    inputs=[
        MASK,
        blob("dY", INDEX | {DataType.FLOAT, DataType.DOUBLE, DataType.BOOL}, role=Role.DATA, doc="(K, *S)"),
    ],
    outputs=[blob("dX", "dY", doc="(N, *S)")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("BooleanMaskGradient", np.array([True, False, True]), [5.0, 7.0])
    array([5., 0., 7.], dtype=float32)
    """,
)
BOOLEAN_MASK_LENGTHS = schema(
    "BooleanMaskLengths",
    "Y[m] = how many rows of segment m are left where mask picks rows.",
    inputs=[
        blob("lengths", INDEX, "M", role=Role.INDEX, doc="rows of each segment, one behind the other"),
        MASK,
    ],
    outputs=[blob("Y", like="lengths")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("BooleanMaskLengths", [2, 0, 1], np.array([True, False, True]))
    array([1, 0, 1], dtype=int32)
    """,
)
BOOLEAN_UNMASK = schema(
    "BooleanUnmask",
    "Y[n] = the next element of the first X whose mask is true at n.",
    inputs=[
        blob(
            "mask",
            DataType.BOOL,
            variadic=True,
            role=Role.INDEX,
            doc="(N); of those behind the first N elements are read",
        ),
        blob("X", variadic=True, role=Role.DATA, doc="a list of as many elements as are taken from it"),
    ],
    outputs=[blob("Y")],
    effects=Effects.PURE,
    relations=[pairs("mask", "X")],
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> first, second = np.array([True, False, True]), np.array([False, True, True])
    >>> run("BooleanUnmask", first, [5.0, 7.0], second, [6.0])
    array([5., 6., 7.], dtype=float32)
    """,
)


@BOOLEAN_MASK.infer
def boolean_mask_infer(op: OpView, X: TensorSpec, mask: TensorSpec) -> tuple[TensorSpec, ...]:
    del mask
    return (X.some_rows(), TensorSpec((None,), DataType.INT64))[: len(op.output_letters)]


@BOOLEAN_MASK.gradient
def boolean_mask_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("BooleanMaskGradient", [g.mask, g.dY], [g.dX])


@kernel(BOOLEAN_MASK)
def boolean_mask(X: Array, mask: Array, Y: DynamicOutput, places: DynamicOutput | None) -> None:
    rows = np.flatnonzero(mask)
    np.take(X, rows, axis=0, out=Y.allocate((rows.size, *X.shape[1:])), mode="clip")  # "raise" copies twice
    if places is not None:
        places.allocate(rows.shape)[...] = rows


@BOOLEAN_MASK_GRADIENT.infer
def boolean_mask_gradient_infer(op: OpView, mask: TensorSpec, dY: TensorSpec) -> TensorSpec:
    if dY.dims is None:
        return dY
    op.require(len(dY.dims) > 0, "dY has rank 0, it must have rows")
    return TensorSpec((None if mask.dims is None else mask.dims[0], *dY.dims[1:]), dY.dtype)


@BOOLEAN_MASK_GRADIENT.cost
def boolean_mask_gradient_cost(op: OpView, mask: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((mask, dY), (dX,))


@kernel(BOOLEAN_MASK_GRADIENT)
def boolean_mask_gradient_kernel(op: OpView, mask: Array, dY: Array, dX: Array) -> None:
    picked = int(mask.sum())
    if picked > len(dY):
        raise op.error(NumericError, f"mask picks {picked} rows, and dY has {len(dY)}")
    dX[...] = 0
    dX[mask] = dY[:picked]


@BOOLEAN_MASK_LENGTHS.cost
def boolean_mask_lengths_cost(op: OpView, lengths: TensorSpec, mask: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((lengths, mask), (Y,), flops=mask.size)


@kernel(BOOLEAN_MASK_LENGTHS)
def boolean_mask_lengths(op: OpView, lengths: Array, mask: Array, Y: Array) -> None:
    starts = starts_of(op, "lengths", lengths, mask.size, "elements of mask")
    before = np.concatenate([[0], np.cumsum(mask)])
    Y[...] = before[starts[1:]] - before[starts[:-1]]


@BOOLEAN_UNMASK.infer
def boolean_unmask_infer(op: OpView, mask: tuple[TensorSpec, ...], X: tuple[TensorSpec, ...]) -> TensorSpec:
    for letter, specs in (("mask", mask), ("X", X)):
        for i, spec in enumerate(specs):
            if spec.dims is not None:
                op.require(len(spec.dims) == 1, f"{letter}{i} has the shape {show_dims(spec.dims)}, it must be a list")
    first = None if mask[0].dims is None else mask[0].dims[0]
    for i, spec in enumerate(mask):
        extent = first if spec.dims is None else spec.dims[0]
        long = first is None or extent is None or extent >= first
        op.require(long, f"mask{i} has {extent} elements, mask0 has {first}", "all must have as many")
    return TensorSpec((first,), require_one_type(op, "X", X))


@BOOLEAN_UNMASK.cost
def boolean_unmask_cost(op: OpView, mask: tuple[TensorSpec, ...], X: tuple[TensorSpec, ...], Y: TensorSpec) -> Cost:
    del op
    return streamed((*mask, *X), (Y,))


@kernel(BOOLEAN_UNMASK)
def boolean_unmask(op: OpView, mask: tuple[Array, ...], X: tuple[Array, ...], Y: Array) -> None:
    left = np.ones(Y.shape, bool)
    for i, (own, values) in enumerate(zip(mask, X, strict=True)):
        taken = left & own[: Y.size]
        if int(taken.sum()) != values.size:
            message = (
                f"{int(taken.sum())} elements are taken from X{i}, where mask{i} is the first; it has {values.size}"
            )
            raise op.error(NumericError, message)
        Y[taken] = values
        left &= ~taken
    if left.any():
        raise op.error(NumericError, f"no mask is true at {int(left.argmax())}", "each element comes from one X")
