"""ChannelShuffle and its gradient, in any layout.

G groups of K channels: a shuffle copies (N, G, K, S...) to (N, K, G, S...). oneDNN's shuffle has code for channels that
are dense or blocked, its reorder for all strides.
"""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import PrimitiveDescriptor, describe
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import LaidOut, OpView
from tazza.ops.nn.channel_shuffle import CHANNEL_SHUFFLE, CHANNEL_SHUFFLE_GRADIENT
from tazza.tensor import TensorSpec

CHANNELS = 1


@onednn(CHANNEL_SHUFFLE, empty="zero", batch_invariant=True)
def channel_shuffle(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X."""
    X = specs["X"]
    image = Order.of(op, X).see(X)
    found = _describe_shuffle(image, op.group)
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), {"Y": X.layout})


@onednn(CHANNEL_SHUFFLE_GRADIENT, empty="zero")
def channel_shuffle_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX from dY: the shuffle with K groups."""
    dY = specs["dY"]
    image = Order.of(op, dY).see(dY)
    found = _describe_shuffle(image, image.dims[CHANNELS] // op.group)
    return LaidOut(PrimitiveLaunch(found, {"src": "dY", "dst": "dX"}), {"dX": dY.layout})


def _describe_shuffle(image: Descriptor, groups: int) -> PrimitiveDescriptor:
    """Return the primitive descriptor that shuffles an image (N, C, S...) of so many groups.

    Raises:
        Unimplemented: the channels are blocked, and no shuffle has code for that.
    """
    N, C, *spatial = image.dims
    try:
        found = describe("shuffle_forward", "forward_inference", image, image, CHANNELS, C // groups)
        if not found.is_slow:
            return found
    except Unimplemented:
        if not image.is_plain:
            raise
    apart = image.reshape((N, groups, C // groups, *spatial))
    together = image.reshape((N, C // groups, groups, *spatial))
    return reorder(apart, together.permute((0, 2, 1, *range(3, 3 + len(spatial)))))
