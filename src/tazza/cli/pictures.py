"""Images from files: pictures, arrays of NumPy (.npy) and IDX files, none of which is unpacked before it is checked.

A picture of a few bytes can ask for gigabytes, and so can the header of an array. So the size that a picture declares
is held against two limits, and the extents of an array against the length of its file, before anything is unpacked.
Pictures are decoded by Pillow, of whose formats those are left out that run programs (PostScript).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tazza.db.idx import read_idx
from tazza.errors import FileError, FormatError, ShapeError, UnavailableError
from tazza.runtime.files import one_line, open_regular, shown

BYTE_MAX = 255
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""Formats of pictures, as Pillow calls them."""
PIXELS_MAX = 2**26
"""Most pixels of a picture: 8192 x 8192."""
PIXELS_FREE = 2**22
"""A picture of so many pixels (2048 x 2048) may come in a file of any length."""
PIXELS_PER_BYTE_MAX = 8 * 1032
"""Most pixels that a byte of a file stands for, beyond those: deflate's best, with 8 pixels in a byte."""
NPY_HEADER_MAX = 10_000
BYTES_MAX = 2**63
"""No array has extents for more, not even one without elements."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """How images become input: what bytes are multiplied by, the height and width to scale to, black for white."""

    scale: float
    size: int | None = None
    invert: bool = False


def read_images(path: Path, channels: int | None, pixels: Pixels) -> NDArray[np.float32]:
    """Read a file into (N, C, H, W). Bytes are scaled; other numbers of arrays are taken as they are.

    Raises:
        FileError: the file is missing or cannot be read.
        FormatError: it is no image, array or IDX file, or declares more than its length justifies.
        ShapeError: an array is not (H, W), (N, H, W) or (N, C, H, W).
    """
    if path.suffix == ".npy":
        array = read_array(path)
    elif "idx" in path.name and path.suffix in ("", ".gz"):
        array = read_idx(path)
    else:
        array = _read_picture(path, channels, pixels.size)
    if array.ndim not in (2, 3, 4):
        raise ShapeError(f"{shown(path)} has the shape {array.shape}, not (H, W), (N, H, W) or (N, C, H, W)")
    if array.ndim < 4:
        array = array.reshape(math.prod(array.shape[:-2]), 1, *array.shape[-2:])
    if array.dtype != np.uint8:
        with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite
            return array.astype(np.float32)
    return (BYTE_MAX - array if pixels.invert else array).astype(np.float32) * np.float32(pixels.scale)


def read_array(path: Path) -> NDArray[Any]:
    """Read the numbers of a .npy file.

    Raises:
        FileError: the file is missing or cannot be read.
        FormatError: it is something else, holds no numbers, or is shorter than its header says.
    """
    with open_regular(path, "array") as file:
        shape, by_columns, dtype = _array_header(file, path)
        if dtype.kind not in "uif":
            raise FormatError(f"{shown(path)} holds {dtype}, not numbers")
        if len(shape) > 4:
            raise ShapeError(f"{shown(path)} has {len(shape)} axes, not the 2 to 4 of images")
        wanted, found = math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size - file.tell()
        if wanted > found:
            raise FormatError(
                f"{shown(path)} is no array: {dtype} of shape {shape} has {wanted} bytes, {found} are there"
            )
        flat = np.frombuffer(file.read(wanted), dtype)
    return flat.reshape(shape, order="F" if by_columns else "C")


def _array_header(file: BinaryIO, path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns lie together, and element type; what is wrong is found before memory is taken."""
    try:
        version = npy.read_magic(file)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if read is None:
            raise ValueError(f"the format has the version {version}")
        shape, by_columns, dtype = read(file, max_header_size=NPY_HEADER_MAX)
        if any(extent < 0 for extent in shape) or math.prod(filter(None, shape)) * dtype.itemsize >= BYTES_MAX:
            raise ValueError(f"a shape of {shape}")
    except Exception as error:  # a header is a literal of Python, and its parser raises whatever comes up
        raise FormatError(
            f"{shown(path)} is no array: {one_line(error)}", hint="numpy.save writes such files"
        ) from error
    return shape, by_columns, dtype


def _read_picture(path: Path, channels: int | None, size: int | None) -> NDArray[np.uint8]:
    """Return (1, C, H, W) bytes: grey for one channel, else red, green, blue."""
    try:
        from PIL import Image
    except ImportError as error:
        raise UnavailableError(
            f"pictures need Pillow, which cannot be imported: {error}", hint="pip install pillow"
        ) from error
    with open_regular(path, "image") as file:
        try:
            with Image.open(file, formats=FORMATS) as image:
                _check_pixels(image.width * image.height, os.fstat(file.fileno()).st_size, path)
                made = image.convert("RGB" if channels == 3 else "L")
                if size is not None:
                    made = made.resize((size, size))
                array = np.asarray(made, np.uint8)
        except (FormatError, FileError):
            raise
        except Exception as error:  # decoders of pictures raise whatever comes up in damaged ones
            hint = f"use .npy, IDX, or a picture: {', '.join(FORMATS)}"
            raise FormatError(f"{shown(path)} is no image that can be read: {one_line(error)}", hint=hint) from error
    return np.moveaxis(array, -1, 0)[np.newaxis] if array.ndim == 3 else array[np.newaxis, np.newaxis]


def _check_pixels(pixels: int, nbytes: int, path: Path) -> None:
    """Refuse a picture that would take more memory than its file justifies."""
    most = min(PIXELS_MAX, PIXELS_FREE + PIXELS_PER_BYTE_MAX * nbytes)
    if pixels > most:
        raise FormatError(
            f"{shown(path)} declares {pixels} pixels, and a picture of {nbytes} bytes may have {most}",
            hint="scale it down first, or pass its pixels as an array (.npy)",
        )
