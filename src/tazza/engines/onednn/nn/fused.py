"""FusedConv: a convolution whose epilogue runs inside of the primitive, on what is still in the cache."""

from __future__ import annotations

from dataclasses import replace

from tazza.engines.onednn.descriptor import Descriptor, accepts_narrow
from tazza.engines.onednn.epilogue import (
    epilogue_launch,
    keeps_whole,
    overwritten_operand,
    post_ops,
    translate_epilogue,
)
from tazza.engines.onednn.estimate import conv_ns
from tazza.engines.onednn.launch import Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.narrow import narrowed
from tazza.engines.onednn.nn.conv import Geometry, conv_arguments, conv_choice, conv_layouts, conv_ways
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, PostOp, PrimitiveDescriptor, describe
from tazza.engines.onednn.search import Requests, best, searched
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.nn.fused import FUSED_CONV, epilogue_of
from tazza.tensor import Layout, TensorSpec

RESULT = Part("result")


@searched(FUSED_CONV)
def fused_conv_requests(op: OpView, specs: dict[str, TensorSpec]) -> Requests | Unsupported:
    """Return the ways to ask; where Y overwrites an S in a layout that nothing fast writes, also to write elsewhere."""
    shape = Geometry.of(op, specs["X"], specs["W"])
    if shape.obstacle is not None:
        return shape.obstacle
    steps = translate_epilogue(epilogue_of(op))
    overwritten = overwritten_operand(tuple(op.definition.input), op.definition.output[0], op.operands)
    whole = keeps_whole(steps, narrowed(specs["Y"].dtype))
    moved = whole and specs["Y"].layout != specs["Y"].layout.whole  # what Y overwrites will lie as Y does
    if moved:
        specs = specs | {"Y": replace(specs["Y"], layout=specs["Y"].layout.whole)}

    def layouts(found: PrimitiveDescriptor) -> dict[str, Layout]:
        made = conv_layouts(shape, found, specs)
        return made | ({"S": made["Y"]} if op.operands else {})

    def direct(found: PrimitiveDescriptor) -> LaidOut:
        return LaidOut(epilogue_launch(found, conv_arguments(specs), steps, overwritten), layouts(found))

    def detour(found: PrimitiveDescriptor) -> LaidOut:
        main = PrimitiveLaunch(
            found, {**conv_arguments(specs), "dst": RESULT, **post_ops(steps, found.argument("dst"))[1]}
        )
        back = describe("reorder", found.argument("dst"), shape.image(specs["Y"]), attributes=Attributes())
        copied = PrimitiveLaunch(back, {"src": RESULT, "dst": "Y"})
        return LaidOut(SequenceLaunch((main, copied)), layouts(found) | {"Y": specs["Y"].layout})

    def follow(target: Descriptor) -> tuple[PostOp, ...]:
        return post_ops(steps, target, overwritten)[0]

    def follow_elsewhere(target: Descriptor) -> tuple[PostOp, ...]:
        return post_ops(steps, target)[0]

    if overwritten is None or moved:
        return conv_choice(conv_ways(shape, specs, follow, whole=whole), direct)
    elsewhere = conv_choice(conv_ways(shape, specs, follow_elsewhere, whole=whole), detour)
    return conv_choice(conv_ways(shape, specs, follow, in_place=True, whole=whole), direct, elsewhere)


@onednn(FUSED_CONV, empty="zero", accepts=accepts_narrow, estimate_ns=conv_ns)
def fused_conv(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = epilogue(conv(X, W, b), S ...)."""
    return best(fused_conv_requests(op, specs))
