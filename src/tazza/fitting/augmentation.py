"""What training does to pictures by chance, so that a net sees no picture twice alike.

Letters: N pictures, H and W height and width, C colours. All is drawn from the generator that is handed in: the same
generator gives the same pictures, whatever was drawn before. Nothing here is done in tests.

Source: Krizhevsky, Sutskever, Hinton 2012, section 4.1 (mirrors, crops); Simard, Steinkraus, Platt 2003 (turns).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.fitting.option import check_types
from tazza.fitting.share import WHOLE, Share
from tazza.images.preprocessing import BYTE_MAX, Bytes, as_image

DEGREES_MAX = 180.0


@dataclass(frozen=True, slots=True)
class Augmentation:
    """By how much pictures change; zeros leave them as they are.

    Args:
        flip: half of them are mirrored, left to right.
        shift: pixels, at most, up or down and left or right; black comes in from there: a crop of the picture with so
            many black pixels around.
        zoom: factors are in 1 - zoom ... 1 + zoom, about the middle.
        rotate: degrees, at most, to either side, about the middle.
        light: factors of brightness are in 1 - light ... 1 + light.

    Raises:
        ArgumentError: a value is of another kind, or out of its range.

    >>> pixels = np.arange(8, dtype=np.uint8).reshape(1, 2, 4, 1)
    >>> Augmentation(shift=1)(pixels, np.random.default_rng(4))[0, ..., 0]
    array([[5, 6, 7, 0],
           [0, 0, 0, 0]], dtype=uint8)
    """

    flip: bool = False
    shift: int = 0
    zoom: float = 0.0
    rotate: float = 0.0
    light: float = 0.0

    def __post_init__(self) -> None:
        check_types(self)
        if self.shift < 0:
            raise ArgumentError(f"shift = {self.shift}", hint="pixels, 0 or more")
        for name in ("zoom", "light"):
            if not 0 <= getattr(self, name) < 1:
                raise ArgumentError(f"{name} = {getattr(self, name)}", hint="a share, from 0 up to 1 without 1")
        if not 0 <= self.rotate <= DEGREES_MAX:
            raise ArgumentError(f"rotate = {self.rotate}", hint=f"degrees, from 0 to {DEGREES_MAX:g}")

    def check(self, size: tuple[int, int]) -> None:
        """Check that pictures of such a height and width stay in sight.

        Raises:
            ArgumentError: they would be shifted by their whole height or width.
        """
        if self.shift and self.shift >= min(size):
            raise ArgumentError(
                f"shift = {self.shift} of pictures of {size[1]}x{size[0]} pixels", hint="less than height and width"
            )

    def __call__(self, pixels: Bytes, random: np.random.Generator, share: Share = WHOLE) -> Bytes:
        """Return pictures (N, H, W, C) that were changed by chance; those that came are left alone.

        Pictures of a share are changed as they are within the joint batch.

        Raises:
            ArgumentError: see `check`.
        """
        self.check((pixels.shape[1], pixels.shape[2]))
        made, N = pixels, len(pixels) * share.size
        own = share.part_of(N)
        if self.zoom or self.rotate:
            turns = random.uniform(-self.rotate, self.rotate, N)[own]
            factors = random.uniform(1 - self.zoom, 1 + self.zoom, N)[own]
            made = np.stack([_turned(*each) for each in zip(made, turns, factors, strict=True)])
        if self.flip:
            mirrored = random.random(N)[own] < 0.5
            made = np.where(mirrored[:, np.newaxis, np.newaxis, np.newaxis], made[:, :, ::-1], made)
        if self.shift:
            made = _shifted(made, random.integers(0, 2 * self.shift + 1, (N, 2))[own], self.shift)
        if self.light:
            factors = random.uniform(1 - self.light, 1 + self.light, (N, 1, 1, 1))[own].astype(np.float32)
            made = np.clip(np.rint(made * factors), 0, BYTE_MAX).astype(np.uint8)
        return made


def _shifted(pixels: Bytes, corners: NDArray[np.int64], most: int) -> Bytes:
    """Return crops (H, W) whose corners are these, of pictures with `most` black pixels around."""
    H, W = pixels.shape[1:3]
    framed = np.pad(pixels, ((0, 0), (most, most), (most, most), (0, 0)))
    cut = [picture[top : top + H, left : left + W] for picture, (top, left) in zip(framed, corners, strict=True)]
    return np.stack(cut)


def _turned(pixels: Bytes, degrees: float, factor: float) -> Bytes:
    """Return a picture (H, W, C) turned and scaled about its middle; black comes in at its edges."""
    from PIL.Image import Resampling, Transform

    H, W, C = pixels.shape
    cos, sin = (each(math.radians(degrees)) / factor for each in (math.cos, math.sin))
    x, y = (W - 1) / 2, (H - 1) / 2
    # Pillow asks where a pixel of the result comes from; its own pixels are half a pixel off
    at = (cos, sin, x - cos * x - sin * y + 0.5 - 0.5 * (cos + sin), -sin, cos, y + sin * x - cos * y)
    at = (*at[:5], at[5] + 0.5 - 0.5 * (cos - sin))
    made = as_image(pixels).transform((W, H), Transform.AFFINE, at, Resampling.BILINEAR)
    return np.asarray(made, np.uint8).reshape(H, W, C)
