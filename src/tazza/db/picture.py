"""Pictures: files such as PNG and JPEG, decoded by Pillow, which take no more memory than their bytes justify.

A picture of a few bytes can ask for gigabytes. So the size that it declares is held against two limits before anything
is unpacked. Formats that run programs (PostScript) are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from tazza.errors import FormatError, TazzaError, UnavailableError
from tazza.runtime.files import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""Formats of pictures, as Pillow calls them."""
BYTE_MAX = 255
PIXELS_MAX = 2**26
"""Most pixels of a picture: 8192 x 8192."""
PIXELS_FREE = 2**22
"""A picture of so many pixels (2048 x 2048) may come in a file of any length."""
PIXELS_PER_BYTE_MAX = 8 * 1032
"""Most pixels that a byte of a file stands for, beyond those: deflate's best, with 8 pixels in a byte."""


def decode_picture(file: BinaryIO, nbytes: int, what: str, *, colors: int) -> Image:
    """Return the picture in a file of `nbytes` bytes, which messages call `what`: grey for one colour, RGB for three.

    Raises:
        FormatError: it is none that can be read, or declares more pixels than its length justifies.
        UnavailableError: Pillow is not there.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise UnavailableError(
            f"pictures need Pillow, which cannot be imported: {error}", hint="pip install pillow"
        ) from error
    try:
        with Image.open(file, formats=FORMATS) as image:
            _check_pixels(image.width * image.height, nbytes, what)
            plain = _plain(image, what)
            return plain.convert("RGB" if colors == 3 else "L")
    except TazzaError:
        raise
    except UnidentifiedImageError as error:
        hint = f"formats that are read: {', '.join(FORMATS)}"
        raise FormatError(f"{what} is no image that can be read: it begins as no picture does", hint=hint) from error
    except Exception as error:  # decoders of pictures raise whatever comes up in damaged ones
        hint = f"formats that are read: {', '.join(FORMATS)}"
        raise FormatError(f"{what} is no image that can be read: {one_line(error)}", hint=hint) from error


def _plain(image: Image, what: str) -> Image:
    """Return what Pillow converts rightly by itself."""
    if image.mode == "F":
        return _bytes_of_floats(image, what)
    return _high_bytes(image) if image.mode.startswith("I") else image


def _bytes_of_floats(image: Image, what: str) -> Image:
    """Return grey levels in 0 ... 1, or in 0 ... 255, as bytes; Pillow's own conversion takes the former for black.

    Raises:
        FormatError: they are in neither.
    """
    from PIL.Image import fromarray

    levels = np.asarray(image)
    most = levels.max()
    if not (levels.min() >= 0 and most <= BYTE_MAX):
        raise FormatError(
            f"{what} holds grey levels with a point from {levels.min():g} to {most:g}",
            hint="scale them to 0 ... 1, or to 0 ... 255",
        )
    return fromarray(np.rint(levels if most > 1 else levels * BYTE_MAX).astype(np.uint8))


def _high_bytes(image: Image) -> Image:
    """Return grey levels of 16 bits as their high bytes; Pillow's own conversion takes all above 255 for white."""
    from PIL.Image import fromarray

    levels = np.asarray(image).astype(np.int64)
    return fromarray(np.clip(levels >> 8, 0, 255).astype(np.uint8))


def _check_pixels(pixels: int, nbytes: int, what: str) -> None:
    """Refuse a picture that would take more memory than its file justifies."""
    most = min(PIXELS_MAX, PIXELS_FREE + PIXELS_PER_BYTE_MAX * nbytes)
    if pixels > most:
        raise FormatError(
            f"{what} declares {pixels} pixels, and a picture of {nbytes} bytes may have {most}",
            hint="scale it down first, or pass its pixels as an array (.npy)",
        )
