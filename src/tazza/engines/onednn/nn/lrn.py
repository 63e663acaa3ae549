"""Local response normalization across channels: LRN and its gradient, in any layout that oneDNN knows.

Letters as in `ops.lrn`. oneDNN's formula is the same, alpha / size and all, for windows of odd size. It does not give
scale, which is got back from what it did to |X|.
"""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.estimate import passes_ns
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import Attributes, Eltwise, PrimitiveDescriptor, describe
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.nn.lrn import LRN, LRN_GRADIENT
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec

KIND = "lrn_across_channels"
TINY = 1e-18
"""Its square is nothing beside bias."""
BLOCK = 16
"""How many channels the code of oneDNN for AVX-512 takes at a time."""
WIDE = 7
"""From this size on a window of the last block reaches too far."""
PASSES, SCALE_PASSES = 6, 200
"""What it takes, in passes over a row-major image."""
LEAST_BETA = 0.25
"""Below, too few digits of scale are left in Y."""


def _numbers(op: OpView) -> tuple[int, float, float, float]:
    return op.size, float(op.alpha), float(op.beta), float(op.bias)


def _flops(op: OpView, x: Descriptor) -> int:
    return (op.size + 20) * (x.nbytes // x.dtype.itemsize)


def _forward(op: OpView, kind: str, x: Descriptor) -> PrimitiveDescriptor:
    return describe("lrn_forward", kind, KIND, x, x, *_numbers(op), flops=_flops(op, x))


def _check_size(op: OpView) -> None:
    if op.size % 2 == 0:
        raise Unsupported(f"size = {op.size}: oneDNN sums windows of odd size")


def lrn_ns(op: OpView, specs: dict[str, TensorSpec]) -> float:
    """Passes over the image: to bring its channels together and apart too, and for scale with powers of its own."""
    del op
    return passes_ns(SCALE_PASSES if "scale" in specs else PASSES, specs["X"])


@onednn(LRN, empty="zero", batch_invariant=True, estimate_ns=lrn_ns)
def lrn(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X; scale too where it is asked for."""
    X = specs["X"]
    _check_size(op)
    order = Order.of(op, X)
    found, layout = _laid_out(op, order, X, next((one.layout for one in (X, specs["Y"]) if wished(one)), None))
    launch = PrimitiveLaunch(found, {"src": "X", "dst": "Y"})
    if "scale" not in specs:
        return LaidOut(launch, {"X": layout, "Y": layout})
    if op.beta < LEAST_BETA or op.bias < TINY:
        raise Unsupported(f"beta = {op.beta} and bias = {op.bias}: oneDNN gives no scale, nor can it be had from Y")
    steps = (launch, *_scale(op, order.see(X, layout), found))
    return LaidOut(SequenceLaunch(steps), dict.fromkeys(("X", "Y", "scale"), layout))


def _laid_out(op: OpView, order: Order, X: TensorSpec, wish: Layout | None) -> tuple[PrimitiveDescriptor, Layout]:
    """Return the forward primitive in the wished layout, or with dense channels where that has no code of its own.

    Where nobody wishes, channels are dense too: for row-major images the code of oneDNN 3.2 slides the sum of squares
    along the channels and subtracts what leaves the window, so that behind one large number all digits are lost, and
    behind an infinite one there is NaN (https://github.com/oneapi-src/oneDNN/blob/v3.2/src/cpu/x64/lrn/
    jit_uni_lrn_kernel.cpp, `nchw_body`). This can go when it adds each window by itself.
    """
    layout = order.dense_channels(X.shape) if wish is None else wish
    found = _forward(op, "forward_inference", order.see(X, layout))
    if found.is_slow:
        layout = order.dense_channels(X.shape)
        found = _forward(op, "forward_inference", order.see(X, layout))
    return found, layout


def _scale(op: OpView, x: Descriptor, forward: PrimitiveDescriptor) -> tuple[PrimitiveLaunch, ...]:
    """Return the launches for scale: with Z = |X| + TINY, which has the same, it is (Z / LRN(Z)) ^ (1 / beta)."""
    size, normalized = Part("size"), Part("normalized")
    above = Attributes((Eltwise("eltwise_linear", 1.0, TINY),))
    absolute = describe("eltwise_forward", "forward_inference", "eltwise_abs", x, x, 0.0, 0.0, attributes=above)
    root = (Eltwise("eltwise_pow", 1.0, 1.0 / op.beta),)  # exp(log() / beta) would lose five bits
    ratio = describe("binary", "binary_div", x, x, x, attributes=Attributes(root))
    return (
        PrimitiveLaunch(absolute, {"src": "X", "dst": size}),
        PrimitiveLaunch(forward, {"src": size, "dst": normalized}),
        PrimitiveLaunch(ratio, {"src_0": size, "src_1": normalized, "dst": "scale"}),
    )


@onednn(LRN_GRADIENT, empty="zero")
def lrn_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Compute dX from X and dY; what the forward primitive leaves for it is computed again, Y into scratch memory."""
    X = specs["X"]
    order = Order.of(op, X)
    _check_size(op)
    _check_reach(op, order.see(X))
    layout = next((specs[letter].layout for letter in ("X", "dY", "dX") if wished(specs[letter])), ROW_MAJOR)
    forward, found = _backward(op, order.see(X, layout))
    if found.is_slow:
        layout = order.dense_channels(X.shape)
        forward, found = _backward(op, order.see(X, layout))
    workspace = Part("workspace")
    steps = [PrimitiveLaunch(found, {"src": "X", "diff_dst": "dY", "diff_src": "dX", "workspace": workspace})]
    if not found.argument("workspace").is_empty:
        again = PrimitiveLaunch(forward, {"src": "X", "dst": Part("Y"), "workspace": workspace})
        steps.insert(0, again)
    return LaidOut(SequenceLaunch(tuple(steps)), dict.fromkeys(("X", "dY", "dX"), layout))


def _check_reach(op: OpView, x: Descriptor) -> None:
    """Refuse windows that reach over a rest of channels: there the code of oneDNN 3.2 for dense channels is wrong.

    It takes 16 channels at a time and reads wrong neighbours in the last, partial block when a window reaches 3 or more
    to each side; errors are as large as the gradient (https://github.com/oneapi-src/oneDNN/blob/v3.2/src/cpu/x64/lrn/
    jit_avx512_common_lrn_bwd_nhwc.cpp). This can go when tests/judge finds nothing without it.
    """
    C = x.dims[1]
    if op.size >= WIDE and C > BLOCK and C % BLOCK != 0:
        raise Unsupported(f"size = {op.size} over {C} channels: oneDNN is wrong in the last, partial block of {BLOCK}")


def _backward(op: OpView, x: Descriptor) -> tuple[PrimitiveDescriptor, PrimitiveDescriptor]:
    forward = _forward(op, "forward_training", x)
    found = describe("lrn_backward", KIND, x, x, x, *_numbers(op), forward, flops=2 * _flops(op, x))
    if op.size == 1:
        # The code generator of oneDNN 3.2 crashes on windows of one channel; the last implementation generates nothing.
        *_, found = found.alternatives()
    return forward, found
