"""Files of images: pictures, arrays of NumPy (.npy) and IDX files, none of which is unpacked before it is checked.

A header of a few bytes can ask for gigabytes. So the extents of an array are held against the length of its file before
anything is unpacked, as `tazza.db.picture` does with the size of a picture.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tazza.db.picture import decode_picture
from tazza.errors import FormatError, ShapeError
from tazza.runtime.files import AnyPath, kind_of, names_in, one_line, open_regular, resolved, shown

if TYPE_CHECKING:
    from PIL.Image import Image

BYTE_MAX = 255
NPY_HEADER_MAX = 10_000
BYTES_MAX = 2**63
"""No array has extents for more, not even one without elements."""
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".npy"})
"""Of the files of a folder that are taken for images."""


def image_files(folder: AnyPath) -> Iterator[Path]:
    """Give the image files of a folder and of the folders in it, by name, without what is hidden; each folder once.

    Raises:
        FileError: a folder cannot be listed.
    """
    return _image_files(Path(folder), set())


def _image_files(folder: Path, seen: set[Path]) -> Iterator[Path]:
    place = resolved(folder)
    if place in seen:  # a link leads back
        return
    seen.add(place)
    for name in names_in(folder):
        path = Path(folder, name)
        if name.startswith("."):
            continue
        if path.suffix.lower() in SUFFIXES or is_idx(path):
            if kind_of(path) == "file":
                yield path
        elif kind_of(path) == "folder":
            yield from _image_files(path, seen)


def is_idx(path: Path) -> bool:
    """Whether a file is called as IDX files of images are."""
    return "idx" in path.name and path.suffix in ("", ".gz") and "labels" not in path.name


def read_picture(path: AnyPath, *, grey: bool = False) -> Image:
    """Return the picture in a file, as it was held: turned as its EXIF data says; grey, or red, green, blue.

    Raises:
        FileError: the file is missing or cannot be read.
        FormatError: it is no picture, or declares more pixels than its length justifies.
    """
    with open_regular(path, "image") as file:
        return decoded(file, os.fstat(file.fileno()).st_size, shown(path), grey=grey)


def decoded(file: BinaryIO, nbytes: int, what: str, *, grey: bool) -> Image:
    """Return the picture in an open file of `nbytes` bytes, which messages call `what`; see `read_picture`.

    Raises:
        FormatError: it is no picture, or declares more pixels than its length justifies.
    """
    return _upright(decode_picture(file, nbytes, what, colors=1 if grey else 3))


def _upright(image: Image) -> Image:
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except (
        Exception
    ):  # data about a picture may be damaged where the picture is not; its readers raise whatever comes up
        return image


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
