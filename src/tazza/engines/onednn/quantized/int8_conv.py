"""Int8Conv, Int8ConvRelu and Int8FusedConv: convolutions of bytes."""

from __future__ import annotations

from tazza.engines.onednn.launch import PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.nn.conv import Geometry
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Accumulate, Attributes, Eltwise, PostOp, describe
from tazza.engines.onednn.quantized.layer import accepts_constants, conv_layer
from tazza.engines.onednn.quantized.scaled import Sums, meaning_of
from tazza.operator import LaidOut, OpView
from tazza.ops.quantized.int8_conv import INT8_CONV, INT8_CONV_RELU, INT8_FUSED_CONV
from tazza.tensor import TensorSpec

RELU = Eltwise("eltwise_relu")


def int8_conv_answer(op: OpView, specs: dict[str, TensorSpec], post_ops: tuple[PostOp, ...]) -> Answer:
    """Return the launch of a convolution with these post-ops, and the layouts."""
    shape = Geometry.of(op, specs["X"], specs["W"])
    wrong = _wrong(shape, specs["W"])
    return conv_layer(shape, specs, post_ops, wrong=wrong) if shape.obstacle is None else shape.obstacle


def _wrong(shape: Geometry, W: TensorSpec) -> bool:
    """Whether filters are depthwise ones over volumes: there the code of oneDNN 3.2 for bytes gives other numbers.

    Seen with more than 16 channels where a filter has 16, 32, 48 ... elements.
    """
    return W.rank == 5 and W.shape[0] == shape.group > 1


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
