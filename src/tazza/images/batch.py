"""Batches of images from files, whatever these are: pictures, arrays, IDX files.

Letters: N images, C channels, H and W height and width. What is said of bytes holds for pixels; other numbers of arrays
are taken as they are.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.db.idx import read_idx
from tazza.errors import ShapeError
from tazza.images.files import BYTE_MAX, is_idx, read_array
from tazza.images.preprocessing import Preprocessing, as_image
from tazza.runtime.files import shown


def read_images(path: Path, prepare: Preprocessing) -> NDArray[Any]:
    """Read all images of a file, as a net takes them.

    Raises:
        FileError: the file is missing or cannot be read.
        FormatError: it is no image, array or IDX file, or declares more than its length justifies.
        ShapeError: an array is not (H, W), (N, H, W) or (N, C, H, W), or cannot get the size that is wanted.
    """
    stored = read_stored(path)
    return prepare(path) if stored is None else prepared(stored, prepare)


def read_stored(path: Path) -> NDArray[Any] | None:
    """Return the numbers (N, H, W) or (N, C, H, W) of an array or an IDX file as they lie there; None: it is a picture.

    Raises:
        FileError, FormatError, ShapeError: as `read_images`.
    """
    if path.suffix == ".npy":
        array = read_array(path)
    elif is_idx(path):
        array = read_idx(path)
    else:
        return None
    if array.ndim not in (2, 3, 4):
        raise ShapeError(f"{shown(path)} has the shape {array.shape}, not (H, W), (N, H, W) or (N, C, H, W)")
    return array[np.newaxis] if array.ndim == 2 else array


def prepared(array: NDArray[Any], prepare: Preprocessing) -> NDArray[Any]:
    """Return images as a net takes them: (N, H, W), which are grey, or (N, C, H, W), whose channels stay as they are.

    Raises:
        ShapeError: bytes cannot get the size that is wanted.

    >>> prepared(np.uint8([[[0, 64]]]), Preprocessing(colors="grey")).tolist()
    [[[[0.0, 0.25]]]]
    """
    if array.dtype != np.uint8:
        with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite
            numbers = array.astype(np.float32)
        if array.ndim == 4:
            return numbers
        return np.expand_dims(numbers, 1 if prepare.order == "NCHW" else 3)
    if array.ndim == 4:
        return _of_channels(array, prepare)
    if prepare.channels == 1 and (prepare.size is None or array.shape[1:] == prepare.size):
        return prepare.numbers(_inverted(array, prepare)[..., np.newaxis])
    if 0 in array.shape:
        raise ShapeError(f"images of shape {array.shape} have no pixels")
    return prepare.numbers(np.stack([prepare.placed(image) for image in array]))


def _of_channels(array: NDArray[np.uint8], prepare: Preprocessing) -> NDArray[Any]:
    """Return (N, C, H, W) in its size and as numbers; colours stay as they are, and so does inverting all of them."""
    _, C, H, W = array.shape
    if len(prepare.mean) not in (1, C) or len(prepare.std) not in (1, C):
        raise ShapeError(f"images of {C} channels, mean {prepare.mean} and std {prepare.std}")
    pixels = np.moveaxis(_inverted(array, prepare), 1, -1)
    if prepare.size is not None and (H, W) != prepare.size:
        if C not in (1, 3) or math.prod(array.shape) == 0:
            raise ShapeError(f"images {array.shape} cannot be scaled to {prepare.size}", hint="1 or 3 channels can")
        sized = [np.asarray(prepare.sized(as_image(image)), np.uint8) for image in pixels]
        pixels = np.stack([image.reshape(*image.shape[:2], C) for image in sized])
    return prepare.numbers(pixels)


def _inverted(array: NDArray[np.uint8], prepare: Preprocessing) -> NDArray[np.uint8]:
    return BYTE_MAX - array if prepare.invert else array
