"""Int8Conv, Int8ConvRelu and Int8FusedConv: convolutions u8 x s8 -> s32 -> u8, all in one primitive.

Requantization is the scale and the zero point of the destination, the rectifier and the sum are post-ops. Channels
stand last in X and Y, which is what oneDNN's code for bytes wants; W lies as it likes (`scaled`).
"""

from __future__ import annotations

from functools import partial

from tazza.engines.onednn.descriptor import Descriptor, accepts_dense
from tazza.engines.onednn.estimate import conv_flops
from tazza.engines.onednn.launch import PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.nn.conv import Geometry
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import (
    Accumulate,
    Attributes,
    Eltwise,
    PostOp,
    PrimitiveDescriptor,
    describe,
    first_fast,
)
from tazza.engines.onednn.quantized.by_numbers import conv_by_numbers
from tazza.engines.onednn.quantized.scaled import Scaling, Sums, meaning_of, signed_layout
from tazza.operator import LaidOut, OpView, Spec
from tazza.ops.quantized.int8_conv import INT8_CONV, INT8_CONV_RELU, INT8_FUSED_CONV
from tazza.tensor import DataType, TensorSpec

RELU = Eltwise("eltwise_relu")


def accepts_constants(letter: str, spec: Spec) -> bool:
    """Take W and b however they lie: they are computed from the blob again."""
    return letter in ("W", "b") or accepts_dense(letter, spec)


def int8_conv_answer(op: OpView, specs: dict[str, TensorSpec], post_ops: tuple[PostOp, ...]) -> Answer:
    """Return the launch of a convolution with these post-ops, and the layouts."""
    shape, sums = Geometry.of(op, specs["X"], specs["W"]), Sums.of(specs)
    if shape.obstacle is not None:
        return shape.obstacle
    axes = (0, specs["W"].rank - 1, *range(1, specs["W"].rank - 1))
    if _wrong(shape, specs["W"]) or sums.obstacle(specs["b"]) is not None:
        return conv_by_numbers(shape, specs, axes, relu=RELU in post_ops)
    grouped = shape.group > 1
    scaling = sums.scaling(post_ops, 3 if grouped else 1)
    bias, bias_layout = sums.bias(specs["b"], specs["b"].shape)
    found = _find(shape, specs, bias, scaling)
    layouts = {
        "X": shape.image_layout(found.argument("src"), specs["X"]),
        "W": signed_layout(found.argument("weights"), axes),
        "b": bias_layout,
        "Y": shape.image_layout(found.argument("dst"), specs["Y"]),
    }
    main = PrimitiveLaunch(found, {"src": "X", "weights": "W", "bias": "b", "dst": "Y", **scaling.arguments})
    return LaidOut(main, layouts)


def _wrong(shape: Geometry, W: TensorSpec) -> bool:
    """Whether filters are depthwise ones over volumes: there the code of oneDNN 3.2 for bytes gives other numbers.

    Seen with more than 16 channels where a filter has 16, 32, 48 ... elements.
    """
    return W.rank == 5 and W.shape[0] == shape.group > 1


def _find(shape: Geometry, specs: dict[str, TensorSpec], bias: Descriptor, scaling: Scaling) -> PrimitiveDescriptor:
    X, W, Y = specs["X"], specs["W"], specs["Y"]

    def ask(source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
        weights = Descriptor.any(shape.filter_dims(TensorSpec(W.shape, W.dtype)), DataType.INT8)
        return describe(
            "convolution_forward",
            "forward_inference",
            "convolution_direct",
            *(source, weights, bias, target),
            *shape.numbers,
            attributes=scaling.attributes,
            flops=conv_flops(W, Y),
        )

    sources, targets = (shape.requests(one, dtype=DataType.UINT8) for one in (X, Y))
    return first_fast(partial(ask, sources[name], targets[name]) for name in ("channels-last", "free"))


@onednn(INT8_CONV, INT8_CONV_RELU, accepts=accepts_constants)
def int8_conv(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, W and b."""
    return int8_conv_answer(op, specs, (RELU,) if op.type == INT8_CONV_RELU.type else ())


@onednn(INT8_FUSED_CONV, accepts=accepts_constants)
def int8_fused_conv(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, W, b and S, to which the primitive adds in place; S is copied where Y does not overwrite it."""
    S = meaning_of(specs["S"])
    add = Accumulate(S.scale / Sums.of(specs).unit, S.zero_point)
    answer = int8_conv_answer(op, specs, (add, RELU) if op.relu else (add,))
    if not isinstance(answer, LaidOut) or isinstance(answer.launch, SequenceLaunch):
        return answer
    layouts = {**answer.layouts, "S": answer.layouts["Y"]}
    if op.input_name("S") == op.definition.output[0]:
        return LaidOut(answer.launch, layouts)
    main = answer.launch
    assert isinstance(main, PrimitiveLaunch), "it is one primitive"
    target = main.primitive.argument("dst")
    copy = describe("reorder", target, target, attributes=Attributes())
    return LaidOut(SequenceLaunch((PrimitiveLaunch(copy, {"src": "S", "dst": "Y"}), main)), layouts)
