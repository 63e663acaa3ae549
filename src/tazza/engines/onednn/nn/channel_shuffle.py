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


@onednn(CHANNEL_SHUFFLE_GRADIENT, empty="zero")
@onednn(CHANNEL_SHUFFLE, empty="zero", batch_invariant=True)
def channel_shuffle(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, or dX from dY, which is the shuffle with K groups."""
    read, written = ("X", "Y") if "X" in specs else ("dY", "dX")
    image = Order.of(op, specs[read]).see(specs[read])
    found = _describe_shuffle(image, op.group if read == "X" else image.dims[CHANNELS] // op.group)
    return LaidOut(PrimitiveLaunch(found, {"src": read, "dst": written}), {written: specs[read].layout})


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
