"""Concatenation: Concat and DepthConcat, which differ by name only. The gradient is Split.

Letters: P the extents before the joined axis, Q those behind it, A0, A1 ... extents along it. The blobs are

    X0 (P..., A0, Q...)    X1 (P..., A1, Q...)    Y (P..., A0 + A1 + ..., Q...)    split_info (number of inputs)

and with `add_axis` X0 (P..., Q...), X1 (P..., Q...), Y (P..., number of inputs, Q...).
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
    arg,
    blob,
    family,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.operator.told import tells
from tazza.ops.nn.channel import ORDER
from tazza.ops.shape.axis import agree, require_one_type
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

CHANNELS = {"NCHW": 1, "NHWC": 3}
"""Order -> the axis of the channels of an image."""

JOIN_ARGS = (
    arg("axis", int, None, doc="the joined axis; negative ones count from the end; by default that of the channels"),
    ORDER,
    arg(
        "add_axis",
        bool,
        False,
        doc="the axis is a new one, along which each part has 1 element; ignored without `axis`",
    ),
)


def join_validate(op: OpView) -> None:
    """Refuse both ways to name the axis at once."""
    if op.given("axis") and op.given("order"):
        raise op.error(ArgumentError, f"axis = {op.axis} and order = {op.order!r} both name an axis", hint="drop one")


def adds_axis(op: OpView) -> bool:
    """Whether the axis is a new one; as in Caffe2 `add_axis` counts beside `axis` alone."""
    return bool(op.arguments.get("add_axis", False)) and op.given("axis")


def join_axis(op: OpView, letter: str, rank: int) -> int:
    """Return the joined axis, from 0 on, of a joined blob with `rank` dimensions.

    Raises:
        ShapeError: there is no such axis.
    """
    axis: int = CHANNELS[op.order.upper()] if op.axis is None else op.axis
    source = f"order = {op.order!r} means axis = {axis}, which" if op.axis is None else f"axis = {axis}"
    op.require(
        -rank <= axis < rank,
        f"{source} is not an axis of {letter}, which has {rank} dimensions",
        "axes count from 0, or from the end with -1",
    )
    return axis % rank


def concat_infer(op: OpView, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, TensorSpec]:
    split_info, dtype = TensorSpec((len(X),), DataType.INT32), require_one_type(op, "X", X)
    k = next((i for i, spec in enumerate(X) if spec.dims is not None), None)
    if k is None:
        return TensorSpec(None, dtype), split_info
    shape = [*(X[k].dims or ())]
    axis = join_axis(op, "Y", len(shape) + adds_axis(op))
    free = None if adds_axis(op) else axis
    for i, spec in enumerate(X):
        _fit(op, free, shape, (k, i), spec)
    if adds_axis(op):
        return TensorSpec((*shape[:axis], len(X), *shape[axis:]), dtype), split_info
    extents = [None if spec.dims is None else spec.dims[axis] for spec in X]
    known = [extent for extent in extents if extent is not None]
    shape[axis] = sum(known) if len(known) == len(extents) else None
    return TensorSpec(tuple(shape), dtype), split_info


def _fit(op: OpView, free: int | None, shape: list[int | None], which: tuple[int, int], spec: TensorSpec) -> None:
    """Check that a blob agrees with `shape` but for the axis `free`, and put into that what only the blob knows."""
    if spec.dims is None:
        return
    first, here = which
    relation = f"X{here} has the shape {show_dims(spec.dims)}, X{first} has {show_dims(shape)}"
    fits = len(spec.dims) == len(shape) and all(
        i == free or agree(a, b) for i, (a, b) in enumerate(zip(spec.dims, shape, strict=True))
    )
    where = "all must have one shape" if free is None else f"only the extents of axis {free} may differ"
    op.require(fits, relation, where)
    for i, extent in enumerate(spec.dims):
        shape[i] = extent if shape[i] is None else shape[i]


def concat_cost(op: OpView, X: tuple[TensorSpec, ...], Y: TensorSpec, split_info: TensorSpec) -> Cost:
    del op
    return streamed(X, (Y, split_info))


def concat_extents(op: OpView, X: Sequence[TensorSpec]) -> dict[str, list[int]]:
    axis = join_axis(op, "Y", len(X[0].shape) + adds_axis(op))
    return {"split_info": [1 if adds_axis(op) else spec.shape[axis] for spec in X]}


def concat_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Split", [g.dY, g.split_info], [g.GI(i) for i in range(len(g.definition.input))])


def concat(op: OpView, X: Sequence[Array], Y: Array, split_info: Array) -> None:
    axis = join_axis(op, "Y", Y.ndim)
    if adds_axis(op):
        np.stack(X, axis=axis, out=Y)
        split_info[...] = 1
    else:
        np.concatenate(X, axis=axis, out=Y)
        split_info[...] = [x.shape[axis] for x in X]


@family("Concat", "DepthConcat")
def concats(type: str) -> OpSchema:
    """The operator under one of its names."""
    made = schema(
        type,
        """Y = X0, X1 ... one behind the other along `axis`; split_info = their extents along it.

        The extents of all other axes are equal. With `add_axis` all have one shape and are stacked along a new one.""",
        inputs=[blob("X", variadic=True, doc="any element type, one for all")],
        outputs=[blob("Y", "X"), blob("split_info", DataType.INT32, host=True, doc="A0, A1 ...; 1s with add_axis")],
        args=[
            *JOIN_ARGS,
            arg("split", list[int], [], doc="no effect; the gradient of Split brings it"),
            arg("use_scaling_lengths", bool, False, doc="no effect; the gradient of SplitByLengths brings it"),
        ],
        effects=Effects.PURE,
        source="Caffe2",
        example=f"""
        >>> run("{type}", [[1, 2], [3, 4]], [[5], [6]], axis=1)
        (array([[1, 2, 5],
               [3, 4, 6]], dtype=int32), array([2, 1], dtype=int32))
        """,
    )
    made.validate(join_validate)
    made.infer(concat_infer)
    made.hands_on("X", when=lambda op: len(op.input_letters) == 1 and not adds_axis(op))
    made.batched("X", when=lambda op: not adds_axis(op) and (op.axis is None or op.axis > 0), but=["split_info"])
    made.cost(concat_cost)
    tells(made, concat_extents)
    made.gradient(concat_gradient)
    kernel(made)(concat)
    return made
