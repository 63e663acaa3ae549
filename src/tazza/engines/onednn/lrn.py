"""Local response normalization across channels: LRN and its gradient, in any layout that oneDNN knows.

Letters as in `ops.lrn`. oneDNN's formula is the same, alpha / size and all, for windows of odd size. It does not give
scale; where that is asked for it is the mean of X * X over windows along the channels, times alpha, plus bias.
"""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import Attributes, Eltwise, PrimitiveDescriptor, describe
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.lrn import LRN, LRN_GRADIENT
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec

KIND = "lrn_across_channels"
SQUARES = Part("squares")


def _numbers(op: OpView) -> tuple[int, float, float, float]:
    return op.size, float(op.alpha), float(op.beta), float(op.bias)


def _flops(op: OpView, x: Descriptor) -> int:
    return (op.size + 20) * (x.nbytes // x.dtype.itemsize)


def _forward(op: OpView, kind: str, x: Descriptor) -> PrimitiveDescriptor:
    return describe("lrn_forward", kind, KIND, x, x, *_numbers(op), flops=_flops(op, x))


def _even(op: OpView) -> Unsupported | None:
    return Unsupported(f"size = {op.size}: oneDNN sums windows of odd size") if op.size % 2 == 0 else None


@onednn(LRN, empty="zero")
def lrn(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X; scale too where it is asked for."""
    X = specs["X"]
    even = _even(op)
    if even is not None:
        return even
    order = Order.of(op, X)
    layout = next((one.layout for one in (X, specs["Y"]) if wished(one)), ROW_MAJOR)
    found, layout = _laid_out(op, order, X, layout)
    steps = [PrimitiveLaunch(found, {"src": "X", "dst": "Y"})]
    layouts = {"X": layout, "Y": layout}
    if "scale" in specs:
        steps += _scale(op, order.see(X, layout))
        layouts["scale"] = layout
    return LaidOut(SequenceLaunch(tuple(steps)), layouts)


def _laid_out(op: OpView, order: Order, X: TensorSpec, layout: Layout) -> tuple[PrimitiveDescriptor, Layout]:
    """Return the forward primitive in that layout, or with dense channels where that has no code of its own."""
    found = _forward(op, "forward_inference", order.see(X, layout))
    if found.is_slow:
        layout = order.dense_channels(X.shape)
        found = _forward(op, "forward_inference", order.see(X, layout))
    return found, layout


def _scale(op: OpView, x: Descriptor) -> list[PrimitiveLaunch]:
    """Return the launches for scale: X * X into scratch memory, and its mean over windows of channels."""
    square = describe("eltwise_forward", "forward_inference", "eltwise_square", x, x, 0.0, 0.0)
    N, C, H, W = x.dims
    n, half = op.size, op.size // 2
    # A window of n x 1 x 1 over one channel of (C, H, W).
    image = x.reshape((N, 1, C, H, W))
    mean = describe(
        "pooling_forward",
        "forward_inference",
        "pooling_avg_include_padding",
        *(image, image),
        *((1, 1, 1), (n, 1, 1), (0, 0, 0), (half, 0, 0), (half, 0, 0)),
        attributes=Attributes((Eltwise("eltwise_linear", float(op.alpha), float(op.bias)),)),
    )
    return [
        PrimitiveLaunch(square, {"src": "X", "dst": SQUARES}),
        PrimitiveLaunch(mean, {"src": SQUARES, "dst": "scale"}),
    ]


@onednn(LRN_GRADIENT, empty="zero")
def lrn_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """dX from X and dY; what the forward primitive leaves for it is computed again, Y into scratch memory."""
    X = specs["X"]
    even = _even(op)
    if even is not None:
        return even
    order = Order.of(op, X)
    layout = next((specs[letter].layout for letter in ("X", "dY", "dX") if wished(specs[letter])), ROW_MAJOR)
    layout = _laid_out(op, order, X, layout)[1]
    x = order.see(X, layout)
    forward = _forward(op, "forward_training", x)
    found = describe("lrn_backward", KIND, x, x, x, *_numbers(op), forward, flops=2 * _flops(op, x))
    workspace = Part("workspace")
    steps = [PrimitiveLaunch(found, {"src": "X", "diff_dst": "dY", "diff_src": "dX", "workspace": workspace})]
    if not found.argument("workspace").is_empty:
        again = PrimitiveLaunch(forward, {"src": "X", "dst": Part("Y"), "workspace": workspace})
        steps.insert(0, again)
    return LaidOut(SequenceLaunch(tuple(steps)), dict.fromkeys(("X", "dY", "dX"), layout))
