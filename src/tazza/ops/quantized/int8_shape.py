"""Bytes in another order or shape: Int8Flatten, Int8Transpose, Int8Slice, Int8Reshape, Int8Concat and their like.

Shapes and arguments are those of the operators of the same name without Int8; images are in the order NHWC.
Int8Flatten, Int8Slice and Int8Reshape take biases of int32, too. Without `Y_scale` and `Y_zero_point` Y means what X
means, of Int8Concat the first X; with others numbers are rounded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.operator import (
    PER_TENSOR,
    ArgSpec,
    Array,
    Cost,
    Effects,
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
from tazza.ops.nn.channel_shuffle import ARGS as SHUFFLE_ARGS
from tazza.ops.nn.channel_shuffle import channel_shuffle, channel_shuffle_infer
from tazza.ops.quantized.int8_conv import NHWC
from tazza.ops.quantized.scale import INT32, NO_GRADIENT, SCALE_ARGS, UINT8, converted, quantization_like
from tazza.ops.shape.axis import shapes_agree
from tazza.ops.shape.reshape import FLATTEN, RESHAPE, flatten_infer, regroup, reshape_infer, reshape_validate
from tazza.ops.shape.slice import ENDS, SLICE_ARGS, STARTS, box, slice_validate, sliced
from tazza.ops.shape.transpose import TRANSPOSE, transpose_axes, transpose_infer, transpose_validate
from tazza.ops.vision.resize import SCALE_ARGS as RESIZE_ARGS
from tazza.ops.vision.resize import nearest, resize_infer, resize_validate
from tazza.tensor import DataType, PerTensor, TensorSpec

INTEGERS = UINT8 | INT32
"""Bytes, and biases."""
X_OF_INTEGERS = blob("X", INTEGERS, quantization=PER_TENSOR)
Y_LIKE_X = blob("Y", "X", quantization=PER_TENSOR)
BYTES = 'run("Int8Quantize", {}, Y_scale=0.5, Y_zero_point=10)'


def resized(op: OpView, X: TensorSpec) -> TensorSpec:
    """Return the spec of images in another size; of `output_size` only whole multiples of the extents count."""
    if X.dims is None or not op.output_size:
        return resize_infer(op, X, None)
    op.require(len(X.dims) == 4, f"X has {len(X.dims)} dimensions {show_dims(X.dims)}, images have 4")
    sizes = [
        None if extent is None else wanted // max(extent, 1) * extent
        for wanted, extent in zip(op.output_size, X.dims[1:3], strict=True)
    ]
    return TensorSpec((X.dims[0], *sizes, X.dims[3]), X.dtype)


def resized_validate(op: OpView) -> None:
    """Refuse scales that are not above 0, and sizes that are not two."""
    resize_validate(op)
    if op.output_size and len(op.output_size) != 2:
        raise op.error(ArgumentError, f"output_size = {op.output_size}, it must be height and width")


def resize(op: OpView, X: Array, Y: Array) -> None:
    places: list[Array] = []
    for axis, scale in ((1, op.height_scale), (2, op.width_scale)):
        whole = Y.shape[axis] // max(X.shape[axis], 1)
        places.append(nearest(Y.shape[axis], X.shape[axis], np.float32(whole if op.output_size else scale)))
    Y[...] = X[:, places[0][:, None], places[1]]


def transpose(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = X.transpose(transpose_axes(op, X.ndim))


def flatten(op: OpView, X: Array, Y: Array) -> None:
    del op
    regroup(X, Y)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Another order of elements: text, arguments, shape, bytes of Y from those of X; parts of the example."""

    doc: str
    args: tuple[ArgSpec, ...]
    infer: Callable[[OpView, TensorSpec], TensorSpec]
    arrange: Callable[[OpView, Array, Array], None]
    given: str
    call: str
    result: str
    validate: Callable[[OpView], None] | None = None
    dtypes: frozenset[DataType] = UINT8


@family(
    {
        "Int8Flatten": Arrangement(
            "Y = X as a matrix: (product of the sizes before `axis`, product of those from it on).",
            tuple(FLATTEN.args.values()),
            flatten_infer,
            flatten,
            "[[[1.0, 2.0], [3.0, 4.0]]]",
            ", axis=2",
            "[[12, 14], [16, 18]]",
            dtypes=INTEGERS,
        ),
        "Int8Transpose": Arrangement(
            "Y = X with its axes in the order `axes`, by default in reverse.",
            tuple(TRANSPOSE.args.values()),
            transpose_infer,
            transpose,
            "[[1.0, 2.0], [3.0, 4.0]]",
            "",
            "[[12, 16], [14, 18]]",
            transpose_validate,
        ),
        "Int8ChannelShuffle": Arrangement(
            "Y[k * G + g] = X[g * K + k] for channels, G groups of K.",
            tuple(NHWC if one.name == "order" else one for one in SHUFFLE_ARGS),
            channel_shuffle_infer,
            channel_shuffle,
            "[[0.0, 1.0, 10.0, 11.0]]",
            ", group=2",
            "[[10, 30, 12, 32]]",
        ),
        "Int8ResizeNearest": Arrangement(
            "Y = the nearest pixel of X (N, H, W, C), for floor(H * sh) rows and floor(W * sw) columns.",
            (*RESIZE_ARGS, arg("output_size", list[int], [], minimum=0, doc="height and width, rounded"), NHWC),
            resized,
            resize,
            "[[[[1.0], [2.0]]]]",
            ", width_scale=2.0",
            "[[[[12], [12], [14], [14]]]]",
            resized_validate,
        ),
    }
)
def int8_arrangements(type: str, row: Arrangement) -> OpSchema:
    """An operator on the places of bytes."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", row.dtypes, quantization=PER_TENSOR)],
        outputs=[Y_LIKE_X],
        args=(*row.args, *SCALE_ARGS),
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f'>>> run("{type}", {BYTES.format(row.given)}{row.call}).data.tolist()\n{row.result}',
    )
    if row.validate is not None:
        made.validate(row.validate)

    @made.infer
    def infer(op: OpView, X: TensorSpec) -> TensorSpec:
        return replace(row.infer(op, X), quantization=quantization_like(op, X))

    @kernel(made)
    def arrange(op: OpView, X: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
        row.arrange(op, converted(X, quantization["X"], quantization["Y"]), Y)

    return made


INT8_SLICE = schema(
    "Int8Slice",
    """Y = X[starts[0]:ends[0], starts[1]:ends[1], ...].

    Numbers below 0 count from behind the last element, so that -1 is the end itself. Instead of all bounds, `dim`,
    `start_idx` and `end_idx` give those of one axis.""",
    inputs=[X_OF_INTEGERS, STARTS, ENDS],
    outputs=[Y_LIKE_X],
    args=(
        *SLICE_ARGS,
        arg("dim", int, None, minimum=0, doc="an axis, with the next two instead of starts and ends"),
        arg("start_idx", int, None, doc="where it starts"),
        arg("end_idx", int, None, doc="where it ends"),
        *SCALE_ARGS,
    ),
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example=f"""
    >>> x = {BYTES.format("[[1.0, 2.0], [3.0, 4.0]]")}
    >>> run("Int8Slice", x, starts=[0, 1], ends=[-1, -1]).data
    array([[14],
           [18]], dtype=uint8)
    """,
)


def one_axis(op: OpView) -> bool:
    """Whether the bounds are those of the axis `dim`."""
    return all(op.arguments[name] is not None for name in ("dim", "start_idx", "end_idx"))


@INT8_SLICE.validate
def int8_slice_validate(op: OpView) -> None:
    if op.has_input("first") or not one_axis(op):
        slice_validate(op)


def bounds(op: OpView, rank: int) -> tuple[list[int], list[int]]:
    """Return starts and ends of all axes, given those of `dim`."""
    op.require(op.dim < rank, f"dim = {op.dim} is not an axis of X, which has {rank} dimensions")
    starts, ends = [0] * rank, [-1] * rank
    starts[op.dim], ends[op.dim] = op.start_idx, op.end_idx
    return starts, ends


@INT8_SLICE.infer
def int8_slice_infer(op: OpView, X: TensorSpec, first: TensorSpec | None, behind: TensorSpec | None) -> TensorSpec:
    if first is not None or not one_axis(op):
        found = sliced(op, X, first, behind)
    elif X.dims is None:
        found = X
    else:
        taken = box(op, X.dims, *bounds(op, len(X.dims)))
        found = TensorSpec(tuple(None if one.stop is None else one.stop - one.start for one in taken), X.dtype)
    return replace(found, quantization=quantization_like(op, X))


@INT8_SLICE.cost
def int8_slice_cost(
    op: OpView, X: TensorSpec, first: TensorSpec | None, behind: TensorSpec | None, Y: TensorSpec
) -> Cost:
    del op, X
    return streamed((Y, first, behind), (Y,))  # of X only what is taken is read


@kernel(INT8_SLICE)
def int8_slice(
    op: OpView,
    X: Array,
    first: Array | None,
    behind: Array | None,
    Y: Array,
    quantization: Mapping[str, PerTensor],
) -> None:
    if first is not None and behind is not None:
        numbers: Any = first.tolist(), behind.tolist()
    else:
        numbers = bounds(op, X.ndim) if one_axis(op) else (op.starts, op.ends)
    Y[...] = converted(X[box(op, X.shape, *numbers)], quantization["X"], quantization["Y"])


INT8_RESHAPE = schema(
    "Int8Reshape",
    """Y = X in the shape that `shape` or the input new_shape says; old_shape = that of X.

    A size of -1, of which there may be one, is what is left for it; 0 takes over the size that X has at that place.""",
    inputs=[X_OF_INTEGERS, *RESHAPE.inputs[1:]],
    outputs=[Y_LIKE_X, *RESHAPE.outputs[1:]],
    args=(*RESHAPE.args.values(), *SCALE_ARGS),
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example=f"""
    >>> Y, old_shape = run("Int8Reshape", {BYTES.format("[[1.0, 2.0]]")}, shape=[-1, 1])
    >>> Y.data.tolist(), old_shape
    ([[12], [14]], array([1, 2]))
    """,
)
INT8_RESHAPE.validate(reshape_validate)


@INT8_RESHAPE.infer
def int8_reshape_infer(op: OpView, X: TensorSpec, new_shape: TensorSpec | None) -> tuple[TensorSpec, TensorSpec]:
    Y, old_shape = reshape_infer(op, X, new_shape)
    return replace(Y, quantization=quantization_like(op, X)), old_shape


@kernel(INT8_RESHAPE)
def int8_reshape(X: Array, Y: Array, old_shape: Array, quantization: Mapping[str, PerTensor]) -> None:
    old_shape[...] = X.shape
    Y[...] = converted(X, quantization["X"], quantization["Y"]).reshape(Y.shape)


INT8_CONCAT = schema(
    "Int8Concat",
    """Y = X0, X1 ... one behind the other along `axis`; split_info = their extents along it.

    By default along the first axis, with `order` along that of the channels, the last one of four.""",
    inputs=[blob("X", UINT8, variadic=True, quantization=PER_TENSOR)],
    outputs=[
        blob("Y", UINT8, quantization=PER_TENSOR),
        blob("split_info", DataType.INT32, optional=True, host=True, doc="one for each X"),
    ],
    args=(arg("axis", int, None, minimum=0, doc="the joined axis"), NHWC, *SCALE_ARGS),
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example=f"""
    >>> x = {BYTES.format("[[1.0, 2.0]]")}
    >>> run("Int8Concat", x, x, axis=1).data
    array([[12, 14, 12, 14]], dtype=uint8)
    """,
)


def joined_axis(op: OpView) -> int:
    """Return the axis along which blobs are joined."""
    if op.axis is not None:
        return int(op.axis)
    return 3 if op.given("order") else 0


@INT8_CONCAT.infer
def int8_concat_infer(op: OpView, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    axis, known = joined_axis(op), [spec.dims for spec in X if spec.dims is not None]
    shape = None if len(known) < len(X) else [*known[0]]
    for i, dims in enumerate(known):
        op.require(axis < len(dims), f"axis = {axis} is not an axis of X{i}, which has {len(dims)} dimensions")
        others = [tuple(extent for at, extent in enumerate(one) if at != axis) for one in (dims, known[0])]
        relation = f"X{i} has the shape {show_dims(dims)}, X0 has {show_dims(known[0])}"
        op.require(shapes_agree(*others), relation, f"only the extents of axis {axis} may differ")
    if shape is not None:
        extents = [extent for dims in known if (extent := dims[axis]) is not None]
        shape[axis] = sum(extents) if len(extents) == len(X) else None
    meaning = quantization_like(op, X[0])
    Y = TensorSpec(None if shape is None else tuple(shape), X[0].dtype, quantization=meaning)
    return (Y, TensorSpec((len(X),), DataType.INT32))[: len(op.output_letters)]


@kernel(INT8_CONCAT)
def int8_concat(
    op: OpView, X: tuple[Array, ...], Y: Array, split_info: Array | None, quantization: Mapping[str, Any]
) -> None:
    axis, after = joined_axis(op), quantization["Y"]
    parts = [converted(x, before, after) for x, before in zip(X, quantization["X"], strict=True)]
    np.concatenate(parts, axis=axis, out=Y)
    if split_info is not None:
        split_info[...] = [x.shape[axis] for x in X]
