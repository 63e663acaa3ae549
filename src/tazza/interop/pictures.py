"""Images from files: pictures, arrays of NumPy (.npy) and IDX files, none of which is unpacked before it is checked.

A header of a few bytes can ask for gigabytes. So the extents of an array are held against the length of its file before
anything is unpacked, as `tazza.db.picture` does with the size of a picture.
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
from tazza.db.picture import decode_picture
from tazza.errors import FormatError, ShapeError
from tazza.runtime.files import one_line, open_regular, shown

BYTE_MAX = 255
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
    with open_regular(path, "image") as file:
        made = decode_picture(file, os.fstat(file.fileno()).st_size, shown(path), colors=3 if channels == 3 else 1)
    array = np.asarray(made if size is None else made.resize((size, size)), np.uint8)
    return np.moveaxis(array, -1, 0)[np.newaxis] if array.ndim == 3 else array[np.newaxis, np.newaxis]
