"""Pictures that a net makes, as PNG files.

Letters: H and W height and width, C colours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError
from tazza.images.files import BYTE_MAX
from tazza.images.preprocessing import Preprocessing, as_bytes, as_image
from tazza.runtime.files import AnyPath, atomic_write

Range = tuple[float, float]
"""The numbers that stand for black and for white."""


def as_picture(made: NDArray[Any], prepare: Preprocessing, limits: Range | None = None) -> NDArray[np.uint8]:
    """Return one output of a net as bytes (H, W, C): grey, or red, green, blue.

    Bytes stay as they are. Other numbers are read from `limits`; without these what `prepare` did to the input is
    undone.

    Args:
        made: (H, W), or with an axis of 1, 3 or 4 colours: the first one in the order NCHW, the last one in NHWC and
            for bytes with 4 of them; the fourth, alpha, is left out.
        prepare: how the input was made; its order and colours are those of the output.
        limits: numbers for black and for white.

    Raises:
        ShapeError: that is no picture.
        ArgumentError: the limits are one number.

    >>> as_picture(np.float32([[[0, 0.5, 1]]]), Preprocessing(colors="grey"), (0, 1)).ravel()
    array([  0, 128, 255], dtype=uint8)
    """
    if limits is not None and limits[0] == limits[1]:
        raise ArgumentError(f"a picture within {limits[0]} and {limits[1]}", hint="give two numbers")
    laid = _laid(made, prepare)
    colors = laid.shape[2]
    if made.dtype != np.uint8:
        laid = _restored(laid, prepare, limits)
    pixels = as_bytes(laid)[..., :3]
    return np.ascontiguousarray(pixels[..., ::-1] if colors > 1 and prepare.colors.startswith("bgr") else pixels)


def is_picture(made: NDArray[Any], prepare: Preprocessing) -> bool:
    """Whether one output of a net may be a picture: more than one pixel, and 1, 3 or 4 colours."""
    try:
        laid = _laid(made, prepare)
    except ShapeError:
        return False
    return made.ndim == 3 and laid.shape[0] * laid.shape[1] > 1


def _laid(made: NDArray[Any], prepare: Preprocessing) -> NDArray[Any]:
    """Return (H, W, C)."""
    laid = made[..., np.newaxis] if made.ndim == 2 else made
    packed = made.dtype == np.uint8 and laid.ndim == 3 and laid.shape[2] == 4
    if laid.ndim == 3 and made.ndim == 3 and prepare.order == "NCHW" and not packed:
        laid = np.moveaxis(laid, 0, -1)
    if laid.ndim != 3 or laid.shape[2] not in (1, 3, 4) or 0 in laid.shape:
        raise ShapeError(
            f"an output of shape {made.shape} for each image is no picture",
            hint="(1, H, W), (3, H, W) and (H, W, 4) are; --output NAME takes another one",
        )
    return laid


def _restored(laid: NDArray[Any], prepare: Preprocessing, limits: Range | None) -> NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        if limits is not None:
            low, high = limits
            return (laid - np.float32(low)) * np.float32(BYTE_MAX / (high - low))
        colors = laid.shape[2]
        mean, std = (np.asarray(each[:colors], np.float32) for each in (prepare.mean, prepare.std))
        bytes_ = (laid * std + mean) / np.float32(prepare.scale)
        return BYTE_MAX - bytes_ if prepare.invert else bytes_


def write_picture(path: AnyPath, pixels: NDArray[np.uint8]) -> None:
    """Write bytes (H, W, C), grey or red, green, blue, as a PNG file, beside and renamed.

    Raises:
        FileError: the file cannot be written.
    """
    image = as_image(pixels)
    with atomic_write(path) as file:
        image.save(file, format="PNG")
