"""Bytes in other places: Int8Transpose, Int8Slice, Int8Concat, Int8ChannelShuffle, Int8ResizeNearest.

All but the last are reorders from one view of memory to another. Where Y means something else than X, the reorder, or a
post-op of the last, scales too, which rounds once.
"""

from __future__ import annotations

import numpy as np

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.engines.onednn.quantized.scaled import meaning_of, reordered, requantizing
from tazza.engines.onednn.shape.concat import ConcatLaunch
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.quantized.int8_shape import INT8_CONCAT, INT8_SLICE, bounds, int8_arrangements, joined_axis, one_axis
from tazza.ops.shape.slice import box
from tazza.ops.shape.transpose import transpose_axes
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec

MOST = 4096
"""Rows or columns up to which oneDNN's places, computed in float32, are certainly the nearest ones."""


PLAIN = {"X": ROW_MAJOR, "Y": ROW_MAJOR}


def _moved(specs: dict[str, TensorSpec], source: Descriptor, target: Descriptor | None = None) -> LaidOut:
    """Return what copies X, seen as `source`, to Y, row-major by default."""
    X, Y = specs["X"], specs["Y"]
    target = _plain(Y) if target is None else target
    return LaidOut(reordered(source, target, src=meaning_of(X), dst=meaning_of(Y)), PLAIN)


def _plain(spec: TensorSpec) -> Descriptor:
    return Descriptor.of(spec.shape, spec.dtype)


@onednn(int8_arrangements["Int8Transpose"])
def int8_transpose(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Axis i of Y is axis `axes[i]` of X."""
    axes = transpose_axes(op, specs["X"].rank)
    return _moved(specs, _plain(specs["X"]).permute(axes) if len(axes) else _plain(specs["X"]))


@onednn(INT8_SLICE)
def int8_slice(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = a box of X."""
    X = specs["X"]
    if "first" in specs:
        raise Unsupported("the box comes as an input: where it lies is known only when it runs")
    if X.dtype is not DataType.UINT8:
        raise Unsupported(f"{X.dtype.label}: oneDNN moves bytes here")
    taken = box(op, X.shape, *(bounds(op, X.rank) if one_axis(op) else (op.starts, op.ends)))
    source, dims = _plain(X), [*X.shape]
    for axis, one in enumerate(taken):
        dims[axis] = one.stop - one.start
        source = source.part(axis, one.start, dims)
    return _moved(specs, source)


@onednn(INT8_CONCAT)
def int8_concat(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X0, X1 ... along the axis, each by a reorder to its place."""
    Y, parts = specs["Y"], [specs[f"X{i}"] for i in range(len(op.input_letters))]
    axis, target, start = joined_axis(op), _plain(Y), 0
    steps: list[PrimitiveLaunch] = []
    for i, part in enumerate(parts):
        place = target.part(axis, start, part.shape)
        steps.append(reordered(_plain(part), place, src=meaning_of(part), dst=meaning_of(Y), read=("X", i)))
        start += part.shape[axis]
    join = SequenceLaunch(tuple(steps))
    if "split_info" not in specs:
        return LaidOut(join, PLAIN)
    numbers = Descriptor.of((len(parts),), DataType.INT32)
    copy = PrimitiveLaunch(reorder(numbers, numbers), {"src": "X", "dst": "Y"})
    return LaidOut(ConcatLaunch(join, copy, tuple(part.shape[axis] for part in parts)), PLAIN)


@onednn(int8_arrangements["Int8ChannelShuffle"], batch_invariant=True)
def int8_channel_shuffle(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X: channels, the last axis, as a matrix that is transposed."""
    C = specs["X"].shape[-1]
    rows = specs["X"].size // C
    apart = Descriptor.of((rows, op.group, C // op.group), DataType.UINT8)
    together = Descriptor.of((rows, C // op.group, op.group), DataType.UINT8)
    return _moved(specs, apart.permute((0, 2, 1)), together)


@onednn(int8_arrangements["Int8ResizeNearest"], batch_invariant=True)
def int8_resize_nearest(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X for images that grow by whole numbers; elsewhere oneDNN takes other elements than Caffe2."""
    X, Y = specs["X"], specs["Y"]
    factors: list[float] = []
    for axis, scale in ((1, op.height_scale), (2, op.width_scale)):
        small, large = X.shape[axis], Y.shape[axis]
        factor = large // small
        grows = factor * small == large <= MOST
        if not grows or (not op.output_size and not np.array_equal(scale, factor)):
            raise Unsupported(f"{small} elements become {large}: oneDNN would take other ones")
        factors.append(float(factor))
    source, target = (Order(4, last=True).see(TensorSpec(one.shape, one.dtype)) for one in (X, Y))
    attributes = Attributes(requantizing(meaning_of(X), meaning_of(Y)))
    kinds = "forward_inference", "resampling_nearest"
    found = describe("resampling_forward", *kinds, tuple(factors), source, target, attributes=attributes).unless_slow
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), PLAIN)
