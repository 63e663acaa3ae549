"""FusedConvDepthwise: one primitive where oneDNN has one that keeps what is between in the cache, else two.

oneDNN does both at once, row by row, for what is too large for the caches of the cores, with 3x3 windows.
"""

from __future__ import annotations

from dataclasses import replace

from tazza.engines.onednn.conv import Geometry, conv_flops, conv_prefers, conv_ways
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.epilogue import post_ops, translate_epilogue
from tazza.engines.onednn.launch import Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import (
    Attributes,
    Depthwise,
    PostOp,
    PrimitiveDescriptor,
    depthwise_argument,
    describe,
    first_fast,
)
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.fused import epilogue_of
from tazza.ops.fused_depthwise import FUSED_CONV_DEPTHWISE, inner_of, inner_spec
from tazza.ops.window import Window
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import TensorSpec

BETWEEN, REORDERED = Part("between"), Part("between, reordered")


@onednn(FUSED_CONV_DEPTHWISE, empty="zero")
def fused_conv_depthwise(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = epilogue(conv(inner(conv(X, W, b)), V, c))."""
    H = inner_spec(op, specs["X"], specs["W"])
    second = Geometry.of(op, H, specs["V"])
    if second.obstacle is not None:
        return second.obstacle
    ones, zeros = (1,) * second.window.rank, (0,) * second.window.rank
    first = Geometry(Window(ones, ones, ones, zeros, zeros), 1, second.last)
    after = [post_ops(translate_epilogue(formula), Descriptor.of(H))[0] for formula in (inner_of(op), epilogue_of(op))]
    try:
        return _together((first, second), after, specs | {"H": H})
    except Unimplemented:
        return _apart((first, second), after, specs | {"H": H})


def _together(
    shapes: tuple[Geometry, Geometry], after: list[tuple[PostOp, ...]], specs: dict[str, TensorSpec]
) -> LaidOut:
    """Return the one primitive; images are channels-last.

    Raises:
        Unimplemented: there is none that keeps H in the cache.
    """
    (first, second), window = shapes, shapes[1].window
    X, W, H, V, Y = (specs[letter] for letter in "XWHVY")
    image, out = shapes[1].image(H).dims[2:], shapes[1].image(Y).dims[2:]
    square = window.rank == 2 and window.kernel[0] == window.kernel[1] and window.stride[0] == window.stride[1]
    whole = out == tuple(-(-extent // window.stride[0]) for extent in image) and set(window.head) == {1}
    if not (square and whole and set(window.dilation) == {1}):
        raise Unimplemented("oneDNN has no such depthwise post-op")
    last = [first.requests(spec)["channels-last"] for spec in (X, H)]
    between = Depthwise(X.dtype, window.kernel[0], window.stride[0], window.head[0])
    found = describe(
        "convolution_forward",
        "forward_inference",
        "convolution_direct",
        *(last[0], Descriptor.any(first.filter_dims(W), W.dtype), Descriptor.of(specs["b"]), last[1]),
        *first.numbers,
        attributes=Attributes((*after[0], between, *after[1]), FPMATH.value),
        flops=conv_flops(W, H) + conv_flops(V, Y),
    )
    if found.is_slow or found.argument("src") != last[0]:  # "ref_fused" is two convolutions with all of H between
        raise Unimplemented(f"oneDNN does them one after the other ({found.implementation})")
    weights, bias = depthwise_argument("weights"), depthwise_argument("bias")
    launch = PrimitiveLaunch(found, {"src": "X", "weights": "W", "bias": "b", weights: "V", bias: "c", "dst": "Y"})
    layouts = {
        "X": first.image_layout(found.argument("src")),
        "W": first.filter_layout(found.argument("weights"), W),
        "V": second.filter_layout(found.argument(weights), V),
        "Y": second.image_layout(found.argument("dst")),
    }
    return LaidOut(launch, layouts)


def _apart(
    shapes: tuple[Geometry, Geometry], after: list[tuple[PostOp, ...]], specs: dict[str, TensorSpec]
) -> LaidOut | Unsupported:
    """Return the two convolutions, with H in scratch memory."""
    first, second = shapes
    one = _fast(first, after[0], {"X": specs["X"], "W": specs["W"], "b": specs["b"], "Y": specs["H"]})
    H = replace(specs["H"], layout=first.image_layout(one.argument("dst")))
    two = _fast(second, after[1], {"X": H, "W": specs["V"], "b": specs["c"], "Y": specs["Y"]})
    steps = [PrimitiveLaunch(one, _arguments("X", "W", "b", BETWEEN))]
    source = BETWEEN
    if one.argument("dst") != two.argument("src"):
        source = REORDERED
        reorder = describe("reorder", one.argument("dst"), two.argument("src"), attributes=Attributes())
        steps.append(PrimitiveLaunch(reorder, {"src": BETWEEN, "dst": REORDERED}))
    steps.append(PrimitiveLaunch(two, _arguments(source, "V", "c", "Y")))
    layouts = {
        "X": first.image_layout(one.argument("src")),
        "W": first.filter_layout(one.argument("weights"), specs["W"]),
        "V": second.filter_layout(two.argument("weights"), specs["V"]),
        "Y": second.image_layout(two.argument("dst")),
    }
    return LaidOut(SequenceLaunch(tuple(steps)), layouts)


def _fast(shape: Geometry, after: tuple[PostOp, ...], specs: dict[str, TensorSpec]) -> PrimitiveDescriptor:
    return conv_prefers(first_fast(conv_ways(shape, specs, lambda target: after).values()))


def _arguments(src: Operand, weights: Operand, bias: Operand, dst: Operand) -> dict[str | int, Operand]:
    return {"src": src, "weights": weights, "bias": bias, "dst": dst}
