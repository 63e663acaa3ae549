"""The gradient of PRelu, in any layout that the images share; blocked ones are read with dense channels.

oneDNN has code for one slope a channel. A single slope is handed on to every channel first, and its gradient is the sum
of theirs.
"""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import Constant, Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.operator import LaidOut, OpView
from tazza.ops.nn.prelu import PRELU_GRADIENT
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec

SPREAD = Part("slopes")
"""The slopes of all channels, where there is one for all."""


def _layout(op: OpView, X: TensorSpec) -> Layout:
    """Return the layout to read X in: oneDNN has code for blocks only where no channel is left over.

    In other orders of axes than these two, as where channels are the last axis of an image whose second one is dense,
    oneDNN 3.2 takes the slopes of other channels.
    """
    dense = Order.of(op, X).dense_channels(X.shape)
    return X.layout if X.layout == ROW_MAJOR else dense


def _seen(op: OpView, specs: dict[str, TensorSpec]) -> tuple[Layout, Descriptor, Descriptor, bool]:
    """Return the layout of the images, X as oneDNN sees it, slopes (1, C, 1...), and whether W is one for all."""
    X = specs["X"]
    layout = _layout(op, X)
    image = Order.of(op, X).see(X, layout)
    slopes = Descriptor.of((1, image.dims[1], *(1 for _ in image.dims[2:])), image.dtype)
    return layout, image, slopes, slopes.dims[1] != specs["W"].size


def _single(slopes: Descriptor) -> Descriptor:
    return Descriptor.of((1,) * len(slopes.dims), slopes.dtype)


def _spread(slopes: Descriptor) -> PrimitiveLaunch:
    """Return what hands the single slope on to every channel."""
    found = describe("binary", "binary_add", slopes, _single(slopes), slopes, attributes=Attributes())
    return PrimitiveLaunch(found, {"src_0": Constant(0.0), "src_1": "W", "dst": SPREAD})


@onednn(PRELU_GRADIENT, empty="zero")
def prelu_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX and dW, in the layout of X."""
    layout, image, slopes, single = _seen(op, specs)
    forward = describe("prelu_forward", "forward_training", image, slopes, image)
    found = describe("prelu_backward", image, slopes, image, slopes, image, forward).unless_slow
    arguments: dict[str | int, Operand] = {"src": "X", "weights": "W", "diff_dst": "dY", "diff_src": "dX"}
    steps = (PrimitiveLaunch(found, {**arguments, "diff_weights": "dW"}),)
    if single:
        apart = Part("gradients of the slopes")
        total = describe("reduction", "reduction_sum", slopes, _single(slopes), 0.0, 0.0, attributes=Attributes())
        steps = (
            _spread(slopes),
            PrimitiveLaunch(found, {**arguments, "weights": SPREAD, "diff_weights": apart}),
            PrimitiveLaunch(total, {"src": apart, "dst": "dW"}),
        )
    return LaidOut(SequenceLaunch(steps), {"W": ROW_MAJOR} | dict.fromkeys(("X", "dY", "dX"), layout))
