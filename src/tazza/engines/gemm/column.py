"""Columns: what all windows of an image see, as a matrix; from an image (im2col) and summed back into one (col2im).

Letters: N images, G groups, C input channels, D spatial dimensions, `in...` and `out...` sizes of image and output,
`n...` sizes of the padded image, `k...` kernel sizes, K and P the products of `k...` and `out...`, R = C/G * K.

The buffer holds the columns of one image. Its elements lie so that both a window and the matrix are views:

    NCHW    (G, C/G, k..., out...)    the matrix (G, R, P) row-major
    NHWC    (G, out..., k..., C/G)    the matrix (G, R, P) transposed

Everything else is written in terms of one logical order, (G, C/G, k..., spatial...). Nothing here computes when it is
called: images become lists of steps, NumPy calls with all views made beforehand, which a convolution mixes with its
matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import Array
from tazza.ops.nn.window import Window, channels_first

Step: TypeAlias = Callable[[], Any]
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """Sizes of the columns of one image; `channels` is C/G, `window` has its final pads."""

    window: Window
    image: Shape
    out: Shape
    groups: int
    channels: int
    order: str

    @property
    def last(self) -> bool:
        """Whether the channels stand last."""
        return self.order.upper() == "NHWC"

    @property
    def padded(self) -> Shape | None:
        """`n...`, or None when the image is read as it is: the copy case."""
        if not any((*self.window.head, *self.window.tail)):
            return None
        return tuple(h + n + t for h, n, t in zip(self.window.head, self.image, self.window.tail, strict=True))

    @property
    def shape(self) -> Shape:
        """Shape of the buffer as Caffe2 shows it: (C * K, out...), channels last (out..., K * C)."""
        column = self.groups * self.channels * self.window.size
        return (*self.out, column) if self.last else (column, *self.out)

    @property
    def stage_shape(self) -> Shape | None:
        """Memory for one padded image, as im2col reads it; None when it reads the image itself."""
        if self.padded is None:
            return None
        C = self.groups * self.channels
        return (1, *self.padded, C) if self.last else (1, C, *self.padded)

    @property
    def fold_shapes(self) -> list[Shape]:
        """Memory for the sums of col2im after each dimension; the last one is missing when that is the image itself."""
        n = self.image if self.padded is None else self.padded
        D = len(n)
        partial_sums = [(self.window.kernel[a:], (*n[:a], *self.out[a:])) for a in range(1, D)]
        whole = [] if self.padded is None else [((), n)]
        return [self._memory(k, spatial) for k, spatial in partial_sums + whole]

    def matrix(self, buffer: Array) -> Array:
        """Return the view (G, R, P) of a buffer."""
        R, P = self.channels * self.window.size, math.prod(self.out)
        if self.last:
            return buffer.reshape(self.groups, P, R).swapaxes(1, 2)
        return buffer.reshape(self.groups, R, P)

    def im2col(self, X: Array, buffer: Array, stage: Array | None) -> list[list[Step]]:
        """Return the steps that fill the buffer, for each image of X (N, C, in...) or (N, in..., C).

        Without padding this is one copy from a view in which windows overlap, whatever stride and dilation are. With
        padding, the image is first copied into the middle of `stage`, whose border is zeroed before the first image.
        """
        columns = self._logical(buffer.reshape(self._memory(self.window.kernel, self.out)), len(self.out))
        x = channels_first(self.order, X)
        if stage is None:
            return [[partial(np.copyto, columns, seen)] for seen in self._patches(x)]
        padded = channels_first(self.order, stage)
        inside, where = self.window.overlap(self.image)
        middle = padded[(0, ..., *where)]
        fill = partial(np.copyto, columns, self._patches(padded)[0])
        steps: list[list[Step]] = [[partial(np.copyto, middle, image[(..., *inside)]), fill] for image in x]
        if steps:
            steps[0].insert(0, partial(stage.fill, 0))
        return steps

    def col2im(self, buffer: Array, dX: Array, stages: list[Array]) -> list[list[Step]]:
        """Return the steps that sum the buffer into each image of dX.

        One dimension is folded after the other, the first one first: k additions of long runs for each dimension
        instead of one for each of the K elements of the kernel.
        """
        D = len(self.out)
        source = self._logical(buffer.reshape(self._memory(self.window.kernel, self.out)), D)
        shared: list[Step] = []
        for axis, stage in enumerate(stages):
            target = self._logical(stage, D - 1 - axis)
            shared += self._fold(source, target, axis)
            source = target
        x = channels_first(self.order, dX)
        images = x.reshape(x.shape[0], self.groups, self.channels, *self.image)
        if self.padded is None:
            return [shared + self._fold(source, image, D - 1) for image in images]
        inside, where = self.window.overlap(self.image)
        middle = source[(..., *where)]
        crop = min(*self.window.head, *self.window.tail) < 0  # what lies outside of every window has no gradient
        return [
            [*shared, *([partial(image.fill, 0)] if crop else []), partial(np.copyto, image[(..., *inside)], middle)]
            for image in images
        ]

    def _fold(self, source: Array, target: Array, axis: int) -> list[Step]:
        """Return the steps that sum over kernel dimension `axis`.

        source (G, C/G, k[axis:]..., n[:axis]..., out[axis:]...) -> target (G, C/G, k[axis+1:]..., n[:axis+1]..., ...):
        the dimension that is folded stands at D + 1 in the target, and its kernel at 2 in the source.
        """
        D = len(self.out)
        s, d, out = self.window.stride[axis], self.window.dilation[axis], self.out[axis]
        steps: list[Step] = [partial(target.fill, 0)]
        reached: set[int] = set()  # remainders by the stride; a copy is cheaper than adding to zeros
        for tap in range(self.window.kernel[axis]):
            into = target[(*[slice(None)] * (D + 1), slice(tap * d, tap * d + s * (out - 1) + 1, s))]
            part = source[:, :, tap]
            new = tap * d % s not in reached
            steps.append(partial(np.copyto, into, part) if new else partial(np.add, into, part, into))
            reached.add(tap * d % s)
        return steps

    def _memory(self, kernel: Shape, spatial: Shape) -> Shape:
        """Return how an array of the logical shape (G, C/G, kernel..., spatial...) lies in memory."""
        if self.last:
            return (self.groups, *spatial, *kernel, self.channels)
        return (self.groups, self.channels, *kernel, *spatial)

    def _logical(self, memory: Array, kernel_dims: int) -> Array:
        """Return the view (G, C/G, kernel..., spatial...) of memory of the shape that `_memory` says."""
        if not self.last:
            return memory
        split, end = memory.ndim - 1 - kernel_dims, memory.ndim - 1
        return memory.transpose(0, end, *range(split, end), *range(1, split))

    def _patches(self, x: Array) -> Array:
        """Return the view (N, G, C/G, k..., out...) of all windows of x (N, C, in...), which needs no padding."""
        D = len(self.out)
        view = self.window.patches_of_padded(x).transpose(0, 1, *range(2 + D, 2 + 2 * D), *range(2, 2 + D))
        return view.reshape(x.shape[0], self.groups, self.channels, *self.window.kernel, *self.out)
