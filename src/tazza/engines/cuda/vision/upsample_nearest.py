"""UpsampleNearest: a copy with steps of 0; its gradient: a thread for each element of dX adds up s * s of dY."""

from __future__ import annotations

from tazza.codegen.term import Term
from tazza.engines.cuda.shape.stride import strided_copy
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.engines.cuda.vision.image import summed
from tazza.operator import Launch, OpView
from tazza.ops.vision.upsample_nearest import UPSAMPLE_NEAREST, UPSAMPLE_NEAREST_GRADIENT
from tazza.tensor import TensorSpec


@translated(UPSAMPLE_NEAREST)
def upsample_nearest(op: OpView, X: TensorSpec) -> Launch:
    """Compile the copy."""
    *_, H, W = X.shape
    axes = [(X.size // max(1, H * W), H * W), (H, W), (op.scale, 0), (W, 1), (op.scale, 0)]
    return strided_copy(X.dtype.itemsize, axes, ("X", "Y"))


@translated(UPSAMPLE_NEAREST_GRADIENT, float32=True)
def upsample_nearest_gradient(op: OpView, dX: TensorSpec) -> Launch:
    """Compile the sums."""

    def write(t: Threads, i: Term) -> None:
        scale = t.w.scale
        line, w = t.split(i, t.w.W)  # line h of an image is followed by the next image's
        wide = t.w.W * scale

        def value(y: Term, x: Term) -> Term:
            return t.load("dY", (line * scale + y) * wide + w * scale + x)

        t.store("dX", i, summed(t, (0, scale), (0, scale), value))

    words = {"W": max(1, dX.shape[-1]), "scale": op.scale, **addresses("dY", "dX")}
    return each_launch("upsampled sums", dX.size, words, write)
