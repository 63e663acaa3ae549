"""Splitting along an axis: Split and DepthSplit, which differ by name only, and SplitByLengths. The gradient is Concat.

Letters as in `ops.concat`: X (P..., A0 + A1 + ..., Q...) falls into Y0 (P..., A0, Q...), Y1 (P..., A1, Q...) ...;
with `add_axis` X (P..., number of outputs, Q...) falls into Y0 (P..., Q...), Y1 (P..., Q...) ...
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    family,
    kernel,
    schema,
    streamed,
)
from tazza.ops.shape.axis import agree, product
from tazza.ops.shape.concat import JOIN_ARGS, adds_axis, join_axis, join_validate
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec


def split_validate(op: OpView) -> None:
    """Refuse two ways to name the axis or the extents at once, and extents that are not one for each output."""
    join_validate(op)
    count = len(op.output_letters)
    if op.split and op.has_input("lengths"):
        raise op.error(ArgumentError, f"split = {op.split} is given, and an input lengths too", hint="drop one")
    if op.split and len(op.split) != count:
        raise op.error(ArgumentError, f"split = {op.split} has {len(op.split)} extents for {count} outputs")


def split_infer(op: OpView, X: TensorSpec, lengths: TensorSpec | None) -> tuple[TensorSpec, ...]:
    count = len(op.output_letters)
    if lengths is not None and lengths.dims is not None:
        elements = product(lengths.dims)
        op.require(agree(elements, count), f"lengths has {elements} elements for {count} outputs", "one for each")
    if X.dims is None:
        return (TensorSpec(None, X.dtype),) * count
    axis = join_axis(op, "X", len(X.dims))
    before, extent, behind = X.dims[:axis], X.dims[axis], X.dims[axis + 1 :]
    if adds_axis(op):
        op.require(agree(extent, count), f"axis {axis} of X has {extent} elements for {count} outputs, with add_axis")
        return (TensorSpec((*before, *behind), X.dtype),) * count
    parts = part_extents(op, axis, extent, lengths)
    return tuple(TensorSpec((*before, part, *behind), X.dtype) for part in parts)


def part_extents(op: OpView, axis: int, extent: int | None, lengths: TensorSpec | None) -> Sequence[int | None]:
    """Return the extents of the outputs along the axis: as `lengths` or `split` say, else equal ones.

    Raises:
        ShapeError: they do not add up to the extent of X.
    """
    count = len(op.output_letters)
    if lengths is None and not op.split:
        if extent is None:
            return (None,) * count
        hint = "give the extents by split = [...]"
        op.require(extent % count == 0, f"{extent} elements of axis {axis} do not divide into {count} outputs", hint)
        return (extent // count,) * count
    given = op.split if lengths is None else op.value_of("lengths")
    if given is None:
        return (None,) * count
    parts: list[int] = np.asarray(given).reshape(-1).tolist()
    source = "split" if lengths is None else "lengths"
    op.require(min(parts) >= 0, f"{source} = {parts}, no extent can be negative")
    relation = f"{source} = {parts} adds up to {sum(parts)}, axis {axis} of X has {extent} elements"
    op.require(agree(sum(parts), extent), relation)
    return parts


def split_cost(op: OpView, X: TensorSpec, lengths: TensorSpec | None, Y: tuple[TensorSpec, ...]) -> Cost:
    del op
    return streamed((X, lengths), Y)


def split_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Join the gradients of all parts; a part that nothing depends on has a gradient of zeros, of type float32.

    The arguments are copied here, since the zeros take none of them.
    """
    if all(gradient is None for gradient in g.output_gradients):
        return []
    zeros: list[OperatorDef] = []
    parts: list[str] = []
    for i in range(len(g.definition.output)):
        if g.output_gradients[i] is None:
            part = g.O(i)
            name = f"_{part}_grad_zeros"
            zeros += g.emit("ConstantFill", [part], [name], value=0.0)
            parts.append(name)
        else:
            parts.append(g.GO(i))
    (joined,) = g.emit("Concat", parts, [g.dX, f"_{g.dX}_dims"])
    joined.arg.extend(g.definition.arg)
    return [*zeros, joined]


def split(op: OpView, X: Array, Y: Sequence[Array]) -> None:
    axis = join_axis(op, "X", X.ndim)
    start = 0
    for y in Y:
        part = 1 if adds_axis(op) else y.shape[axis]
        y[...] = X[(slice(None),) * axis + (slice(start, start + part),)].reshape(y.shape)
        start += part


@family("Split", "DepthSplit")
def splits(type: str) -> OpSchema:
    """The operator under one of its names."""
    made = schema(
        type,
        """Y0, Y1 ... = X, cut along `axis`.

        The extents of the parts are those in `split` or in the input lengths, else equal. With `add_axis` each part has
        one element there, and loses the axis; the numbers in `split` and lengths do not count then.""",
        inputs=[
            blob("X"),
            blob("lengths", DataType.INT32, optional=True, host=True, role=Role.SHAPE, doc="A0, A1 ..."),
        ],
        outputs=[blob("Y", "X", variadic=True)],
        args=[*JOIN_ARGS, arg("split", list[int], [], minimum=0, doc="A0, A1 ...")],
        effects=Effects.PURE,
        source="Caffe2",
        example=f"""
        >>> run("{type}", [[1, 2, 5], [3, 4, 6]], axis=1, split=[2, 1], outputs=2)
        (array([[1, 2],
               [3, 4]], dtype=int32), array([[5],
               [6]], dtype=int32))
        """,
    )
    made.validate(split_validate)
    made.infer(split_infer)
    made.cost(split_cost)
    made.gradient(split_gradient, copy_arguments=False)
    kernel(made)(split)
    return made


SPLIT_BY_LENGTHS = schema(
    "SplitByLengths",
    """Y0, Y1 ... = X, cut along `axis`; each part gets as many lengths as there are for each output.

    Its extent is what they add up to; with `use_scaling_lengths` all extents are that times the number that makes
    them add up to that of X.""",
    inputs=[
        blob("X"),
        blob("lengths", DataType.INT32, "L", host=True, role=Role.SHAPE, doc="as many for each output"),
    ],
    outputs=[blob("Y", "X", variadic=True)],
    args=[
        *(one for one in JOIN_ARGS if one.name != "add_axis"),
        arg("use_scaling_lengths", bool, False, doc="extents are multiples of the lengths"),
    ],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("SplitByLengths", [[1, 2, 5], [3, 4, 6]], [1, 1, 0, 1], outputs=2)
    (array([[1, 2],
           [3, 4]], dtype=int32), array([[5],
           [6]], dtype=int32))
    """,
)
SPLIT_BY_LENGTHS.validate(join_validate)
SPLIT_BY_LENGTHS.cost(split_cost)
SPLIT_BY_LENGTHS.gradient(split_gradient, copy_arguments=False)
kernel(SPLIT_BY_LENGTHS)(split)


@SPLIT_BY_LENGTHS.infer
def split_by_lengths_infer(op: OpView, X: TensorSpec, lengths: TensorSpec) -> tuple[TensorSpec, ...]:
    count = len(op.output_letters)
    if lengths.dims is not None and lengths.dims[0] is not None:
        given = lengths.dims[0]
        op.require(given % count == 0, f"there are {given} lengths for {count} outputs", "as many for each")
    if X.dims is None:
        return (TensorSpec(None, X.dtype),) * count
    axis = join_axis(op, "X", len(X.dims))
    value, extent = op.value_of("lengths"), X.dims[axis]
    parts: list[int | None] = [None] * count
    if value is not None and (extent is not None or not op.use_scaling_lengths):
        parts = [*lengthy_extents(op, value.reshape(count, -1).sum(axis=1, dtype=np.int64), axis, extent)]
    return tuple(TensorSpec((*X.dims[:axis], part, *X.dims[axis + 1 :]), X.dtype) for part in parts)


def lengthy_extents(op: OpView, sums: Array, axis: int, extent: int | None) -> list[int]:
    """Return the extents of the outputs along the axis, from the sum of the lengths of each.

    Raises:
        ShapeError: one is negative, or they do not add up to the extent of X, nor do their multiples.
    """
    parts, total = sums.tolist(), int(sums.sum())
    op.require(min(parts) >= 0, f"lengths make {parts}, no extent can be negative")
    relation = f"lengths add up to {total}, axis {axis} of X has {extent} elements"
    if op.use_scaling_lengths and extent is not None:
        op.require(extent % max(total, 1) == 0, relation, "it must be a multiple")
        return [part * (extent // max(total, 1)) for part in parts]
    op.require(agree(total, extent), relation)
    return parts
