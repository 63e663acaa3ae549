"""FusedConvDepthwise: one primitive where oneDNN has one that keeps what is between in the cache, else two.

oneDNN does both at once, row by row, where what is between is more than twice what the caches of the cores hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from tazza.engines.onednn.descriptor import Descriptor, accepts_narrow
from tazza.engines.onednn.epilogue import Epilogue, translate_epilogue
from tazza.engines.onednn.estimate import conv_flops
from tazza.engines.onednn.launch import Part, PrimitiveLaunch, SequenceLaunch, by_letter
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.narrow import narrowed
from tazza.engines.onednn.nn.conv import FORWARD, Geometry, conv_fast, conv_ways
from tazza.engines.onednn.prepare import Answer, name_specs, onednn
from tazza.engines.onednn.primitive import Attributes, Depthwise, depthwise_argument, describe
from tazza.operator import LaidOut, OpView, Spec, kernel_key
from tazza.operator.choice import MADE, VARIANTS, Variant
from tazza.ops.nn.fused import epilogue_of
from tazza.ops.nn.fused_depthwise import FUSED_CONV_DEPTHWISE, inner_of, inner_spec
from tazza.ops.nn.window import LegacyPad, Window
from tazza.runtime.fpmath import FPMATH
from tazza.runtime.native_code import processor
from tazza.tensor import DataType, Layout, TensorSpec

BETWEEN, REORDERED = Part("between"), Part("between, reordered")
STRIDES = ((1, 1), (2, 2))
KEY = kernel_key(FUSED_CONV_DEPTHWISE.type, "onednn")


class Pair:
    """Both convolutions as oneDNN takes them, the post-ops behind each, and the specs, of which H is between."""

    def __init__(self, op: OpView, specs: dict[str, TensorSpec]) -> None:
        self.specs = specs | {"H": inner_spec(op, specs["X"], specs["W"])}
        self.second = Geometry.of(op, self.specs["H"], specs["V"])
        ones, zeros = (1,) * self.second.window.rank, (0,) * self.second.window.rank
        self.first = Geometry(Window(ones, ones, ones, zeros, zeros), zeros, 1, self.second.order)
        self.after = [Epilogue(translate_epilogue(formula)) for formula in (inner_of(op), epilogue_of(op))]
        self.whole = self.after[1].keeps_whole(narrowed(self.specs["Y"].dtype))

    def layouts(self, source: Descriptor, W: Descriptor, V: Descriptor, target: Descriptor) -> dict[str, Layout]:
        """Return the layouts of X, W, V and Y."""
        return {
            "X": self.first.image_layout(source, self.specs["X"]),
            "W": self.first.filter_layout(W, self.specs["W"]),
            "V": self.second.filter_layout(V, self.specs["V"]),
            "Y": self.second.image_layout(target, self.specs["Y"]),
        }


def at_once(pair: Pair) -> LaidOut:
    """Return the one primitive; images are channels-last.

    Raises:
        Unimplemented: there is none that keeps H in the cache.
    """
    first, window = pair.first, pair.second.window
    X, W, H, V, Y = (pair.specs[letter] for letter in "XWHVY")
    image, out = (pair.second.order.see(spec).dims[2:] for spec in (H, Y))
    if pair.whole:
        raise Unimplemented("what oneDNN does at once it rounds at the end")
    if not _has_code(window, W.shape[0]):
        raise Unimplemented("oneDNN has no code for such a depthwise post-op")
    if out != tuple(-(-extent // window.stride[0]) for extent in image):
        raise Unimplemented(f"oneDNN would make another image than {out}")
    dtype = narrowed(X.dtype)
    last = [first.requests(spec, dtype=dtype)["channels-last"] for spec in (X, H)]
    post_ops = (*pair.after[0].post_ops(last[1]), _post_op(dtype, window), *pair.after[1].post_ops(last[1]))
    found = first.forward(
        *(last[0], Descriptor.any(first.filter_dims(W), dtype), Descriptor.of(pair.specs["b"]), last[1]),
        attributes=Attributes(post_ops, FPMATH.value),
        flops=conv_flops(W, H) + conv_flops(V, Y),
    )
    if found.is_slow:  # "ref_fused" is two convolutions with all of H between
        raise Unimplemented(f"oneDNN does them one after the other ({found.implementation})")
    weights, bias = depthwise_argument("weights"), depthwise_argument("bias")
    launch = PrimitiveLaunch(found, {**by_letter(pair.specs, *FORWARD), weights: "V", bias: "c"})
    arguments = [found.argument(name) for name in ("src", "weights", weights, "dst")]
    return LaidOut(launch, pair.layouts(*arguments))


def _post_op(dtype: DataType, window: Window) -> Depthwise:
    return Depthwise(dtype, window.kernel[0], window.stride[0], window.head[0])


def _has_code(window: Window, M: int) -> bool:
    """Whether oneDNN has code that does both at once: 3x3 windows, channels that fill registers."""
    return (
        (window.kernel, window.dilation, window.head) == ((3, 3), (1, 1), (1, 1))
        and window.stride in STRIDES
        and window.legacy_pad is LegacyPad.NOTSET
        and M % (processor().vector_bytes // 4) == 0
    )


def apart(pair: Pair) -> LaidOut:
    """Return the two convolutions, with H in scratch memory."""
    X, W, b, H, V, c, Y = (pair.specs[letter] for letter in ("X", "W", "b", "H", "V", "c", "Y"))
    one = conv_fast(conv_ways(pair.first, {"X": X, "W": W, "b": b, "Y": H}, pair.after[0]).values())
    between = replace(H, layout=pair.first.image_layout(one.argument("dst"), H))
    behind = {"X": between, "W": V, "b": c, "Y": Y}
    two = conv_fast(conv_ways(pair.second, behind, pair.after[1], whole=pair.whole).values())
    steps = [PrimitiveLaunch(one, {"src": "X", "weights": "W", "bias": "b", "dst": BETWEEN})]
    source = BETWEEN
    if one.argument("dst") != two.argument("src"):
        source = REORDERED
        reorder = describe("reorder", one.argument("dst"), two.argument("src"), attributes=Attributes())
        steps.append(PrimitiveLaunch(reorder, {"src": BETWEEN, "dst": REORDERED}))
    steps.append(PrimitiveLaunch(two, {"src": source, "weights": "V", "bias": "c", "dst": "Y"}))
    arguments = one.argument("src"), one.argument("weights"), two.argument("weights"), two.argument("dst")
    return LaidOut(SequenceLaunch(tuple(steps)), pair.layouts(*arguments))


WAYS: dict[str, Callable[[Pair], LaidOut]] = {"at once": at_once, "one after the other": apart}
"""Best first."""


@onednn(FUSED_CONV_DEPTHWISE, empty="zero", accepts=accepts_narrow)
def fused_conv_depthwise(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = epilogue(conv(inner(conv(X, W, b)), V, c))."""
    pair = Pair(op, specs)
    pair.second.check()
    try:
        return at_once(pair)
    except Unimplemented:
        return apart(pair)


@MADE.registering(KEY, help="channels that fill registers, windows of 3x3")
def takes(op: OpView, inputs: Sequence[Spec | None]) -> bool:
    """Whether there is code that does both at once, for images that are large enough."""
    W = inputs[1]
    if not isinstance(W, TensorSpec) or not W.shape_known:
        return False
    try:
        for formula in (inner_of(op), epilogue_of(op)):
            translate_epilogue(formula)
    except Unimplemented:
        return False
    return _has_code(Window.of(op), W.shape[0])


@VARIANTS.registering(KEY, help="at once, or one after the other")
def variants(op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> list[Variant]:
    """Return the ways that there are for these specs, for a plan to time."""
    specs = name_specs(op, inputs, outputs)
    if any(spec.size == 0 for spec in specs.values()):
        return []
    pair = Pair(op, specs)
    pair.second.check()
    found: list[Variant] = []
    for name, way in WAYS.items():
        with suppress(Unimplemented):
            found.append(Variant(name, way(pair)))
    return found
