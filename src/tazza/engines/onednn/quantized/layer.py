"""Layers of bytes, u8 x s8 -> s32 -> u8 in one primitive, or by way of float32, at the speed of the float32 layer.

Requantization is the scale and the zero point of the destination, the rectifier and the sum are post-ops.

By way of float32 goes what oneDNN does not compute in bytes: filters with another zero point than 128, as Caffe2's own
converter wrote them; biases that have other scales than the products; and windows with which oneDNN's code for bytes is
wrong. X becomes numbers in scratch memory, the layer makes numbers of these, and the last reorder bytes. Filters and
biases lie as numbers, computed once. Sums are rounded to float32, so a result may be off by a step where the exact one
lies in the middle between two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from tazza.engines.onednn.descriptor import Descriptor, accepts_dense
from tazza.engines.onednn.launch import Operand, Part, PrimitiveLaunch, SequenceLaunch, by_letter
from tazza.engines.onednn.nn.conv import FORWARD, Geometry
from tazza.engines.onednn.primitive import Accumulate, Attributes, PostOp, PrimitiveDescriptor, first_fast
from tazza.engines.onednn.quantized.scaled import Sums, meaning_of, numbered_layout, reordered, signed_layout
from tazza.operator import LaidOut, Spec
from tazza.tensor import ROW_MAJOR, DataType, Layout, TensorSpec

SOURCE, TARGET = Part("numbers of X"), Part("numbers of Y")

Ask: TypeAlias = Callable[[DataType, DataType, Descriptor, Attributes], PrimitiveDescriptor]
"""What describes the primitive for these types of images and filters, bias and attributes."""


Images: TypeAlias = Callable[[PrimitiveDescriptor], dict[str, Layout]]


def accepts_constants(letter: str, spec: Spec) -> bool:
    """Take W and b however they lie: they are computed from the blob again."""
    return letter in ("W", "b") or accepts_dense(letter, spec)


def layer(
    specs: dict[str, TensorSpec],
    ask: Ask,
    axes: tuple[int, ...],
    bias: tuple[int, ...],
    *,
    mask: int = 1,
    post_ops: tuple[PostOp, ...] = (),
    wrong: bool = False,
    images: Images = lambda found: {"X": ROW_MAJOR, "Y": ROW_MAJOR},
) -> LaidOut:
    """Return a layer of X, W and b.

    Args:
        specs: of the blobs; where S is among them, post-ops add it to Y.
        ask: what describes the primitive.
        axes: bring those of W into oneDNN's order.
        bias: extents of b there.
        mask: the axes of output channels in the filters of oneDNN.
        post_ops: on the sums of integers.
        wrong: whether oneDNN's code for bytes is.
        images: how a primitive for bytes wants X and Y to lie.
    """
    sums = Sums.of(specs)
    if wrong or sums.obstacle(specs["b"]) is not None:
        numbers = tuple(Accumulate() if isinstance(one, Accumulate) else one for one in post_ops)
        return _by_numbers(ask(DataType.FLOAT, DataType.FLOAT, Descriptor.of(bias), Attributes(numbers)), specs, axes)
    scaling = sums.scaling(post_ops, mask)
    shown, lies = sums.bias(specs["b"], bias)
    found = ask(DataType.UINT8, DataType.INT8, shown, scaling.attributes)
    layouts = {**images(found), "W": signed_layout(found.argument("weights"), axes), "b": lies}
    return LaidOut(PrimitiveLaunch(found, by_letter(specs, *FORWARD) | scaling.arguments), layouts)


def conv_layer(
    shape: Geometry, specs: dict[str, TensorSpec], post_ops: tuple[PostOp, ...] = (), *, wrong: bool
) -> LaidOut:
    """Return a convolution, transposed or not; channels stand last in X and Y, which is what oneDNN wants for bytes."""
    X, W, Y = (TensorSpec(specs[letter].shape, specs[letter].dtype) for letter in "XWY")

    def ask(images: DataType, filters: DataType, bias: Descriptor, attributes: Attributes) -> PrimitiveDescriptor:
        weights = Descriptor.any(shape.filter_dims(W), filters)
        pairs = zip(*(shape.requests(one, dtype=images).values() for one in (X, Y)), strict=True)
        asked = partial(shape.forward, flops=shape.flops(X, W, Y), attributes=attributes)
        return first_fast(partial(asked, source, weights, bias, target) for source, target in pairs)

    return layer(
        specs,
        ask,
        shape.first,
        (Y.shape[-1],),
        mask=3 if shape.group > 1 else 1,
        post_ops=post_ops,
        wrong=wrong,
        images=lambda found: shape.layouts(found, specs, "src", "dst"),
    )


def _by_numbers(found: PrimitiveDescriptor, specs: dict[str, TensorSpec], axes: tuple[int, ...]) -> LaidOut:
    """Return the steps around a primitive that computes numbers from numbers; images and rows lie row-major."""
    source, target = (found.argument(name) for name in ("src", "dst"))
    arguments: dict[str | int, Operand] = {"src": SOURCE, "weights": "W", "bias": "b", "dst": TARGET}
    steps = [reordered(_seen(specs["X"], source), source, src=meaning_of(specs["X"]), write=SOURCE)]
    if "S" in specs:
        steps.append(reordered(_seen(specs["S"], target), target, src=meaning_of(specs["S"]), read="S", write=TARGET))
    back = reordered(target, _seen(specs["Y"], target), dst=meaning_of(specs["Y"]), read=TARGET)
    bias = Descriptor.of(specs["b"].shape)  # of which a transposed convolution takes the first M
    layouts = {
        **{letter: ROW_MAJOR for letter in "XSY" if letter in specs},
        "W": numbered_layout(found.argument("weights"), axes),
        "b": numbered_layout(bias, None, Sums.of(specs).of_bias),
    }
    return LaidOut(SequenceLaunch((*steps, PrimitiveLaunch(found, arguments), back)), layouts)


def _seen(spec: TensorSpec, like: Descriptor) -> Descriptor:
    """Return the descriptor of bytes that lie row-major, channels last, with the axes of another descriptor."""
    plain = Descriptor.of(spec.shape, DataType.UINT8)
    if len(like.dims) == spec.rank > 2:
        return plain.permute((0, spec.rank - 1, *range(1, spec.rank - 1)))
    return plain.reshape(like.dims)
