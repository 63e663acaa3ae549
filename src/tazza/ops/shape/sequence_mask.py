"""A mask on the columns of rows, by lengths, by windows or by triangles: SequenceMask.

Letters: X is cut at `axis` into I rows of J columns; an element at row i, column j is kept where

    sequence    j < lengths[i]                 window      |j - lengths[i]| <= radius: lengths are centers
    upper       j <= i                         lower       j >= i
    upperdiag   j < i                          lowerdiag   j > i

With `batch` all axes up to that one count batches, and i the rows of one, between it and `axis`. With
`repeat_from_axis` columns end at that axis, and what is behind it is masked alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tazza.errors import ArgumentError, SchemaError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    kernel,
    schema,
)
from tazza.ops.shape.axis import cut
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

KEPT: dict[str, Callable[[Array, Array, Array, int], Array]] = {
    "sequence": lambda i, j, ends, radius: j < ends,
    "window": lambda i, j, ends, radius: np.abs(j - ends) <= radius,
    "upper": lambda i, j, ends, radius: j <= i,
    "lower": lambda i, j, ends, radius: j >= i,
    "upperdiag": lambda i, j, ends, radius: j < i,
    "lowerdiag": lambda i, j, ends, radius: j > i,
}
"""Mode -> what is kept, of rows i (I, 1), columns j (J), lengths (I, 1), and the radius."""
COUNTED = ("sequence", "window")
"""Modes that read lengths."""

SEQUENCE_MASK = schema(
    "SequenceMask",
    "Y = X where the mask keeps it, else `fill_val`; 0 with `grad`.",
    inputs=[
        blob("X", FLOAT),
        blob("lengths", DataType.INT32, optional=True, role=Role.INDEX, doc="at least one for each of I rows"),
    ],
    outputs=[blob("Y", like="X")],
    args=[
        arg("mode", str, choices=tuple(KEPT), doc="what is kept, see above"),
        arg("axis", int, 1, doc="columns begin here"),
        arg("batch", int, None, doc="the last axis of batches, before `axis`"),
        arg("repeat_from_axis", int, None, doc='columns end here, behind `axis`; for the mode "sequence"'),
        arg("radius", int, 10, doc="of a window"),
        arg("fill_val", float, -math.inf, doc="what is not kept becomes"),
        arg("grad", bool, False, doc="what is not kept becomes 0, as gradients do"),
    ],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("SequenceMask", [[1.0, 2.0], [3.0, 4.0]], [1, 2], mode="sequence")
    array([[  1., -inf],
           [  3.,   4.]], dtype=float32)
    """,
)


@SEQUENCE_MASK.validate
def sequence_mask_validate(op: OpView) -> None:
    if op.mode in COUNTED and not op.has_input("lengths"):
        raise op.error(SchemaError, f'the mode "{op.mode}" reads lengths, there are none')
    if op.repeat_from_axis is not None and (op.mode != "sequence" or op.batch is not None):
        raise op.error(ArgumentError, 'repeat_from_axis is for the mode "sequence", without batch')


def divided(op: OpView, dims: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return X's shape as (batches, rows of each, columns, elements of each column).

    Raises:
        ShapeError: an argument names no axis of X, or one that stands elsewhere.
    """
    axis, batches, behind = len(cut(op, "axis", "X", dims)[0]), 0, len(dims)
    if op.batch is not None:
        batches = len(cut(op, "batch", "X", dims)[0]) + 1
        op.require(batches <= axis, f"batch = {op.batch} is not before axis = {op.axis}")
    if op.repeat_from_axis is not None:
        behind = len(cut(op, "repeat_from_axis", "X", dims)[0])
        op.require(behind >= axis, f"repeat_from_axis = {op.repeat_from_axis} is before axis = {op.axis}")
    return (
        math.prod(dims[:batches]),
        math.prod(dims[batches:axis]),
        math.prod(dims[axis:behind]),
        math.prod(dims[behind:]),
    )


@SEQUENCE_MASK.infer
def sequence_mask_infer(op: OpView, X: TensorSpec, lengths: TensorSpec | None) -> TensorSpec:
    if X.shape_known:
        _, rows, _, _ = divided(op, X.shape)
        if op.mode in COUNTED and lengths is not None and lengths.shape_known:
            op.require(lengths.size >= rows, f"there are {lengths.size} lengths, and I = {rows} rows")
    return TensorSpec(X.dims, X.dtype)


@SEQUENCE_MASK.cost
def sequence_mask_cost(op: OpView, X: TensorSpec, Y: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return Cost(2 * X.size, X.nbytes, Y.nbytes)


def sequence_mask_gradient(g: GradientRequest) -> list[OperatorDef]:
    lengths = [g.lengths] if g.op.mode in COUNTED else []
    (made,) = g.emit("SequenceMask", [g.dY, *lengths], [g.dX], grad=1)
    copied = [argument for argument in g.definition.arg if argument.name != "grad" or argument.i]
    for place, argument in enumerate(copied):  # before its own, as Caffe2 has them
        made.arg.insert(place, argument)
    return [made]


SEQUENCE_MASK.gradient(sequence_mask_gradient, copy_arguments=False)


@kernel(SEQUENCE_MASK)
def sequence_mask(op: OpView, X: Array, lengths: Array | None, Y: Array) -> None:
    shape = divided(op, X.shape)
    _, rows, columns, _ = shape
    ends = np.zeros((rows, 1), np.int64)
    if lengths is not None and op.mode in COUNTED:
        ends[...] = lengths.reshape(-1)[:rows, None]
    kept = KEPT[op.mode](np.arange(rows)[:, None], np.arange(columns), ends, op.radius)  # (I, J)
    fill = np.float32(0 if op.grad else op.fill_val)
    Y[...] = X
    np.copyto(Y.reshape(shape), fill, where=~kept[None, :, :, None])
