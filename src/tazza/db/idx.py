"""The IDX files that MNIST comes in: one array each, plain or gzipped.

A file is two zero bytes, a code of the element type, the rank, each extent as a big-endian 32-bit number, then the
elements in row-major order, big-endian too.
Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database", section on file formats.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tazza.errors import FormatError
from tazza.runtime.files import open_regular, reading, shown
from tazza.tensor.dtype import numpy_dtype
from tazza.tensor.spec import MOST_AXES

ELEMENTS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""Code of an element type -> the NumPy type of the stored elements."""

GZIP_MAGIC = b"\x1f\x8b"
DEFLATE_RATIO_MAX = 1032
"""Deflate makes at most so many bytes of one; a header that promises more lies."""


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read the array of an IDX file; whether it is gzipped is told by its first bytes and not by its name.

    Raises:
        FileError: the file is missing or cannot be read.
        FormatError: it is no IDX file, is truncated, is longer than its header says, or its compressed form is corrupt.
    """
    source = shown(path)
    try:
        with open_regular(path) as file, reading(path):
            packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            nbytes_max = os.fstat(file.fileno()).st_size * (DEFLATE_RATIO_MAX if packed else 1)
            if not packed:
                return _read(file, nbytes_max, source)
            with gzip.GzipFile(fileobj=file) as unpacked:
                return _read(unpacked, nbytes_max, source)  # pyright: ignore[reportArgumentType] -- reads like a file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"{source} is a corrupt gzip file: {error}", hint="download it again") from error


def _read(file: BinaryIO, nbytes_max: int, source: str) -> NDArray[Any]:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in ELEMENTS:
        raise FormatError(
            f"{source} is no IDX file: it begins with {start.hex(' ')}, not with 00 00, a type code and a rank",
            hint="IDX files are called like train-images-idx3-ubyte",
        )
    dtype, rank = numpy_dtype(ELEMENTS[start[2]]), start[3]
    if rank > MOST_AXES:
        raise FormatError(f"{source} has the rank {rank}, and an array has at most {MOST_AXES} axes")
    extents = file.read(4 * rank)
    if len(extents) < 4 * rank:
        raise FormatError(f"{source} is truncated: {len(extents)} bytes of extents, rank {rank} needs {4 * rank}")
    dims: tuple[int, ...] = struct.unpack(f">{rank}I", extents)
    nbytes = math.prod(dims) * dtype.itemsize
    if nbytes > nbytes_max:
        raise FormatError(f"{source} is truncated: dims {dims} need {nbytes} bytes, it has {nbytes_max} at most")
    if math.prod(filter(None, dims)) * dtype.itemsize >= 2**63:
        raise FormatError(f"{source} has the dims {dims}, and no array has extents for so many elements")
    data = file.read(nbytes)
    if len(data) < nbytes:
        raise FormatError(f"{source} is truncated: dims {dims} need {nbytes} bytes, {len(data)} are there")
    if file.read(1):
        raise FormatError(f"{source} is too long: dims {dims} are {nbytes} bytes, and more follow")
    return np.frombuffer(data, dtype).reshape(dims)


def read_idx_images(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Read images (N, H, W) of bytes.

    Raises:
        FileError, FormatError: as `read_idx`; or the array is something else.
    """
    return _bytes_of_rank(path, 3, "images (N, H, W)")


def read_idx_labels(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Read labels (N,) of bytes.

    Raises:
        FileError, FormatError: as `read_idx`; or the array is something else.
    """
    return _bytes_of_rank(path, 1, "labels (N)")


def _bytes_of_rank(path: str | os.PathLike[str], rank: int, what: str) -> NDArray[np.uint8]:
    array = read_idx(path)
    if array.ndim != rank or array.dtype != np.uint8:
        raise FormatError(f"{shown(path)} holds {array.dtype} of shape {array.shape}, not bytes of rank {rank}: {what}")
    return array
