"""Layers of bytes by way of float32: what oneDNN does not compute in bytes, at the speed of the float32 layer.

Those are filters with another zero point than 128, as Caffe2's own converter wrote them; biases that have other scales
than the products; and windows with which oneDNN's code for bytes is wrong. X becomes numbers in scratch memory, the
layer makes numbers of these, and the last reorder bytes. Filters and biases lie as numbers, computed once. Sums are
rounded to float32, so a result may be off by a step where the exact one lies in the middle between two.
"""

from __future__ import annotations

import math
from functools import partial

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.estimate import conv_flops
from tazza.engines.onednn.launch import Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.nn import conv, conv_transpose
from tazza.engines.onednn.primitive import (
    Accumulate,
    Attributes,
    Eltwise,
    PostOp,
    PrimitiveDescriptor,
    describe,
    first_fast,
)
from tazza.engines.onednn.quantized.scaled import Scaling, Sums, meaning_of, numbered_layout
from tazza.operator import LaidOut
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec

SOURCE, TARGET = Part("numbers of X"), Part("numbers of Y")
RELU = Eltwise("eltwise_relu")


def conv_by_numbers(
    shape: conv.Geometry, specs: dict[str, TensorSpec], axes: tuple[int, ...], *, relu: bool
) -> LaidOut:
    """Return a convolution; what S has is added where it is among the specs."""
    W = specs["W"]
    post_ops = _post_ops(specs, relu=relu)
    filters = Descriptor.any(shape.filter_dims(TensorSpec(W.shape, W.dtype)), DataType.FLOAT)

    def ask(source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
        return describe(
            "convolution_forward",
            "forward_inference",
            "convolution_direct",
            *(source, filters, _bias(specs), target),
            *shape.numbers,
            attributes=Attributes(post_ops),
            flops=conv_flops(W, specs["Y"]),
        )

    asked = (shape.requests(specs[letter], dtype=DataType.FLOAT) for letter in "XY")
    sources, targets = asked
    found = first_fast(partial(ask, sources[name], targets[name]) for name in ("channels-last", "free"))
    return _by_numbers(found, specs, axes)


def conv_transpose_by_numbers(
    shape: conv_transpose.Geometry, specs: dict[str, TensorSpec], axes: tuple[int, ...]
) -> LaidOut:
    """Return a transposed convolution."""
    X, W, Y = (TensorSpec(specs[letter].shape, DataType.FLOAT) for letter in "XWY")
    filters = Descriptor.any(shape.filter_dims(W), DataType.FLOAT)

    def ask(source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
        found = describe(
            "deconvolution_forward",
            "forward_inference",
            "deconvolution_direct",
            *(source, filters, _bias(specs), target),
            *shape.numbers,
            attributes=Attributes(),
            flops=2 * X.size * math.prod(W.shape[1:]),
        )
        if found.is_slow or "+ref" in found.implementation:
            raise Unimplemented(f"oneDNN has only its reference code ({found.implementation})")
        return found

    found = first_fast(partial(ask, *pair) for pair in zip(shape.requests(X), shape.requests(Y), strict=True))
    return _by_numbers(found, specs, axes)


def fc_by_numbers(specs: dict[str, TensorSpec]) -> LaidOut:
    """Return a product of matrices."""
    N, M = specs["Y"].shape
    K = specs["X"].size // N
    found = describe(
        "matmul",
        Descriptor.of((N, K)),
        Descriptor.any((K, M), DataType.FLOAT),
        Descriptor.of((1, M)),
        Descriptor.of((N, M)),
        attributes=Attributes(),
        flops=2 * N * M * K,
    )
    if found.is_slow:
        raise Unimplemented(f"oneDNN has only its reference code ({found.implementation})")
    return _by_numbers(found, specs, (*range(1, specs["W"].rank), 0))


def _bias(specs: dict[str, TensorSpec]) -> Descriptor:
    return Descriptor.of((specs["Y"].shape[-1],))


def _post_ops(specs: dict[str, TensorSpec], *, relu: bool) -> tuple[PostOp, ...]:
    add = (Accumulate(1.0),) if "S" in specs else ()
    return (*add, RELU) if relu else add


def _by_numbers(found: PrimitiveDescriptor, specs: dict[str, TensorSpec], axes: tuple[int, ...]) -> LaidOut:
    """Return the steps around a primitive that computes numbers from numbers; images and rows lie row-major."""
    source, target = (found.argument(name) for name in ("src", "dst"))
    arguments: dict[str | int, Operand] = {"src": SOURCE, "weights": "W", "bias": "b", "dst": TARGET}
    steps = [_to_numbers("X", specs["X"], source, SOURCE)]
    if "S" in specs:
        steps.append(_to_numbers("S", specs["S"], target, TARGET))
    steps += [PrimitiveLaunch(found, arguments), _to_bytes(specs["Y"], target)]
    bias = Descriptor.of(specs["b"].shape)  # of which a transposed convolution takes the first M
    layouts = {
        **{letter: ROW_MAJOR for letter in "XSY" if letter in specs},
        "W": numbered_layout(found.argument("weights"), axes),
        "b": numbered_layout(bias, None, Sums.of(specs).of_bias),
    }
    return LaidOut(SequenceLaunch(tuple(steps)), layouts)


def _seen(spec: TensorSpec, like: Descriptor) -> Descriptor:
    """Return the descriptor of bytes that lie row-major, channels last, with the axes of another descriptor."""
    plain = Descriptor.of(spec.shape, DataType.UINT8)
    if len(like.dims) == spec.rank > 2:
        return plain.permute((0, spec.rank - 1, *range(1, spec.rank - 1)))
    return plain.reshape(like.dims)


def _to_numbers(letter: str, spec: TensorSpec, target: Descriptor, part: Part) -> PrimitiveLaunch:
    scaling, meaning = Scaling(), meaning_of(spec)
    scaling.scale("src", meaning.scale)
    scaling.zero_point("src", meaning.zero_point)
    found = describe("reorder", _seen(spec, target), target, attributes=scaling.attributes)
    return PrimitiveLaunch(found, {"src": letter, "dst": part, **scaling.arguments})


def _to_bytes(spec: TensorSpec, source: Descriptor) -> PrimitiveLaunch:
    scaling, meaning = Scaling(), meaning_of(spec)
    scaling.scale("dst", meaning.scale)
    scaling.zero_point("dst", meaning.zero_point)
    found = describe("reorder", source, _seen(spec, source), attributes=scaling.attributes)
    return PrimitiveLaunch(found, {"src": TARGET, "dst": "Y", **scaling.arguments})
