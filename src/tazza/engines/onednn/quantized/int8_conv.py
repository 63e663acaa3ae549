"""Int8Conv, Int8ConvRelu and Int8FusedConv: convolutions of bytes."""

from __future__ import annotations

from tazza.engines.onednn.launch import PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.narrow import has_tiles
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
    shape.check()
    wrong = _is_depthwise_over_volumes(shape, specs["W"]) or _reaches_far_out(shape, specs["X"])
    return conv_layer(shape, specs, post_ops, wrong=wrong)


def _is_depthwise_over_volumes(shape: Geometry, W: TensorSpec) -> bool:
    """Whether filters are depthwise ones over volumes: there the code of oneDNN 3.2 for bytes gives other numbers.

    Seen with more than 16 channels where a filter has 16, 32, 48 ... elements.
    """
    return W.rank == 5 and W.shape[0] == shape.group > 1


FAR = 4
"""Rows of padding, above or below an image."""


def _reaches_far_out(shape: Geometry, X: TensorSpec) -> bool:
    """Whether windows reach many rows out of the image, where another byte than 0 stands for 0.

    What oneDNN 3.2 adds for such a border on processors with tiles (AMX) is of other memory then: results are off, or
    the process ends. Of 731 drawn images with 64 channels and more and 4 rows and more 73 were wrong, of 758 with fewer
    rows none; so were 9 of 550 volumes, all with 4 rows and more. Columns and planes are no matter.
    """
    rows = max(shape.window.head[-2], shape.tail[-2]) if len(shape.tail) > 1 else 0
    return rows >= FAR and meaning_of(X).zero_point != 0 and has_tiles()


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
