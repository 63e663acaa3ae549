"""Images and filters as kernels of our own see them: where the next pixel lies, and where the next filter."""

from __future__ import annotations

from tazza.operator import Spec
from tazza.tensor import ROW_MAJOR, Layout, Strided, TensorSpec, channels_last


def image_steps(spec: TensorSpec, last: bool) -> tuple[int, int, int]:
    """Return the steps from image to image, row to row and pixel to pixel of a channels-last image, in elements."""
    _, *extents = spec.shape
    H, W, C = extents if last else (*extents[1:], extents[0])
    return H * W * C, W * C, C


def image_layout(spec: TensorSpec, last: bool) -> Layout:
    """Return the layout of an image whose channels are dense."""
    return ROW_MAJOR if last else channels_last(spec.shape)


def filter_steps(W: TensorSpec, layout: Strided, *, last: bool) -> tuple[int, int, int, int]:
    """Return the steps of k, c, y and x in filters of shape (K, C, r, r), or (K, r, r, C) with channels last."""
    k, *rest = layout.steps(W.shape)
    y, x, c = rest if last else (*rest[1:], rest[0])
    return k, c, y, x


def accepts_images(letter: str, spec: Spec) -> bool:
    """Take what is strided; the launch names the layouts that it reads."""
    del letter
    return not isinstance(spec, TensorSpec) or isinstance(spec.layout, Strided)
