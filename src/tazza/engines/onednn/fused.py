"""FusedConv: a convolution whose epilogue runs inside of the primitive, on what is still in the cache."""

from __future__ import annotations

from tazza.engines.onednn.conv import Geometry, conv_arguments, conv_layouts, conv_ways
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.epilogue import epilogue_launch, overwritten_operand, post_ops, translate_epilogue
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import PostOp, PrimitiveDescriptor
from tazza.engines.onednn.search import Requests, best, searched
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.fused import FUSED_CONV, epilogue_of
from tazza.tensor import TensorSpec


@searched(FUSED_CONV)
def fused_conv_requests(op: OpView, specs: dict[str, TensorSpec]) -> Requests | Unsupported:
    shape = Geometry.of(op, specs["X"], specs["W"])
    if shape.obstacle is not None:
        return shape.obstacle
    steps = translate_epilogue(epilogue_of(op))
    overwritten = overwritten_operand(tuple(op.definition.input), op.definition.output[0], op.operands)

    def follow(target: Descriptor) -> tuple[PostOp, ...]:
        return post_ops(steps, target, overwritten)[0]

    def answer(found: PrimitiveDescriptor) -> LaidOut:
        layouts = conv_layouts(shape, found, specs["W"])
        if op.operands:
            layouts["S"] = layouts["Y"]
        return LaidOut(epilogue_launch(found, conv_arguments(specs), steps, overwritten), layouts)

    return Requests(conv_ways(shape, specs, follow, in_place=overwritten is not None), answer)


@onednn(FUSED_CONV, empty="zero")
def fused_conv(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = epilogue(conv(X, W, b), S ...)."""
    return best(fused_conv_requests(op, specs))
