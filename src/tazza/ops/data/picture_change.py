"""What becomes of a picture on its way into a batch: box, size, crop, mirror, colours, mean and deviation.

Nothing is drawn where `random` is None, as in tests: the crop is the middle then, and colours stay. Colours lie blue,
green, red.

Source: Krizhevsky, Sutskever, Hinton 2012, section 4.1 (crops, mirrors, lighting); Szegedy et al. 2015, section 6
(parts of a picture by area and aspect); Howard 2013 (saturation, brightness, contrast).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.picture import PIXELS_MAX
from tazza.device import Generator
from tazza.errors import ShapeError

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.float32]
Box = tuple[int, int, int, int]

AREA = (0.08, 1.0)
"""Share of a picture that a random part of it has."""
ASPECT = (3 / 4, 4 / 3)
"""Width of such a part for its height."""
TRIES = 10
GREY = np.array([0.114, 0.587, 0.299], np.float32)
"""Weights of blue, green, red in the brightness that people see (ITU-R BT.601)."""
LIGHT_DEVIATION = np.array([0.2175, 0.0188, 0.0045])
"""Deviations of the colours of ImageNet along their principal axes, for colours in [0, 1]."""
LIGHT_AXES = np.array([[-0.5836, -0.6948, 0.4203], [-0.5808, -0.0045, -0.8140], [-0.5675, 0.7192, 0.4009]])
"""These axes, one a column; rows are blue, green, red."""
BYTE_MAX = 255.0


@dataclass(frozen=True, slots=True)
class ColorJitter:
    """By how much saturation, brightness and contrast may change: factors are in 1 - x ... 1 + x."""

    saturation: float
    brightness: float
    contrast: float


@dataclass(frozen=True, slots=True)
class Change:
    """All that is done to pictures; sizes in pixels.

    Args:
        crop: height and width of the result.
        side: what the shorter side becomes, None: as it is; with two numbers one between them is drawn.
        only_up: it only becomes larger.
        warp: both sides become that, whatever the aspect.
        parts: a random part of the picture is scaled to the crop instead, where one fits.
        mirror: half of the pictures are mirrored, left to right.
        jitter: of colours, None: none.
        lighting: deviation of the light along the axes of the colours of ImageNet, 0: none.
        mean: subtracted, one a colour.
        std: what the rest is divided by, one a colour.
        box: what is cut out first, where the record says nothing.
    """

    crop: tuple[int, int]
    side: tuple[int, int] | None
    only_up: bool
    warp: bool
    parts: bool
    mirror: bool
    jitter: ColorJitter | None
    lighting: float
    mean: Sequence[float]
    std: Sequence[float]
    box: Box | None = None

    @property
    def colors(self) -> int:
        """Number of colours."""
        return len(self.mean)


def changed(image: Image, change: Change, box: Box | None, random: Generator | None, what: str) -> Pixels:
    """Return a picture as (crop height, crop width, colours), blue, green, red where these are three.

    Raises:
        ShapeError: the picture, called `what`, is smaller than the crop.
    """
    from PIL.Image import Transpose

    placed = _boxed(image, change.box if box is None else box)
    part = _part(placed, change, random) if change.parts and random is not None else None
    if part is None:
        part = _cropped(_scaled(placed, change, random, what), change.crop, random, what)
    if change.mirror and random is not None and _coin(random):
        part = part.transpose(Transpose.FLIP_LEFT_RIGHT)
    pixels = np.asarray(part, np.float32)
    pixels = np.ascontiguousarray(pixels[..., ::-1]) if pixels.ndim == 3 else pixels[..., np.newaxis]
    if random is not None:
        pixels = _colored(pixels, change, random)
    return (pixels - np.asarray(change.mean, np.float32)) / np.asarray(change.std, np.float32)


def _boxed(image: Image, box: Box | None) -> Image:
    """Return what is in a box; all of it where there is no box, or one that does not lie in the picture."""
    if box is None:
        return image
    top, left, height, width = box
    inside = min(top, left) >= 0 and min(height, width) > 0 and top + height <= image.height
    if not inside or left + width > image.width:
        return image
    return image.crop((left, top, left + width, top + height))


def _scaled(image: Image, change: Change, random: Generator | None, what: str) -> Image:
    from PIL.Image import Resampling

    if change.side is None:
        return image
    low, high = change.side
    side = low if random is None or low == high else int(random.integers(1, low, high)[0])
    shorter = min(image.width, image.height)
    if change.only_up and side <= shorter:
        return image
    W, H = (side, side) if change.warp else (-(-extent * side // shorter) for extent in (image.width, image.height))
    if H * W > PIXELS_MAX:
        raise ShapeError(
            f"the picture of {what}, {image.height} x {image.width}, would become {H} x {W}: over {PIXELS_MAX} pixels",
            hint="cut it, or scale it less",
        )
    return image if (W, H) == (image.width, image.height) else image.resize((W, H), Resampling.BILINEAR)


def _part(image: Image, change: Change, random: Generator) -> Image | None:
    """Return a random part, scaled to the crop; None where none was found that fits."""
    from PIL.Image import Resampling

    H, W = change.crop
    for _ in range(TRIES):
        area, aspect = random.uniform(2).tolist()
        area = (AREA[0] + area * (AREA[1] - AREA[0])) * image.width * image.height
        aspect = ASPECT[0] + aspect * (ASPECT[1] - ASPECT[0])
        width, height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < width <= image.width and 0 < height <= image.height:
            left, top = _place(image.width - width, random), _place(image.height - height, random)
            part = image.crop((left, top, left + width, top + height))
            return part.resize((W, H), Resampling.BILINEAR)
    return None


def _cropped(image: Image, crop: tuple[int, int], random: Generator | None, what: str) -> Image:
    H, W = crop
    if image.height < H or image.width < W:
        raise ShapeError(
            f"the picture of {what} has {image.height} x {image.width} pixels, the crop {H} x {W}",
            hint="minsize or scale make it larger",
        )
    top, left = _place(image.height - H, random), _place(image.width - W, random)
    return image.crop((left, top, left + W, top + H))


def _place(room: int, random: Generator | None) -> int:
    """Return an offset in 0 ... room: the middle where nothing is drawn."""
    return room // 2 if random is None else int(random.integers(1, 0, room)[0])


def _coin(random: Generator) -> bool:
    return bool(random.uniform(1)[0] < 0.5)


def _colored(pixels: Pixels, change: Change, random: Generator) -> Pixels:
    if change.jitter is not None:
        ways: list[tuple[Callable[[Pixels, float], Pixels], float]] = [
            (_saturated, change.jitter.saturation),
            (_brightened, change.jitter.brightness),
            (_contrasted, change.jitter.contrast),
        ]
        order: list[int] = np.argsort(random.uniform(len(ways))).tolist()
        for place in order:
            way, most = ways[place]
            pixels = way(pixels, float(random.uniform(1, 1 - most, 1 + most)[0]))
    if change.lighting > 0:
        alpha = random.gaussian(3, 0.0, change.lighting)
        pixels = pixels + (LIGHT_AXES @ (alpha * LIGHT_DEVIATION) * BYTE_MAX).astype(np.float32)
    return pixels


def _saturated(pixels: Pixels, factor: float) -> Pixels:
    grey: Pixels = np.dot(pixels, GREY)[..., np.newaxis]
    return (grey + np.float32(factor) * (pixels - grey)).astype(np.float32)


def _brightened(pixels: Pixels, factor: float) -> Pixels:
    return pixels * np.float32(factor)


def _contrasted(pixels: Pixels, factor: float) -> Pixels:
    mean = (pixels @ GREY).mean()
    return mean + np.float32(factor) * (pixels - mean)
