"""IDX files: what is read, and each way in which a file can be wrong."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.db.idx import ELEMENTS, read_idx, read_idx_images, read_idx_labels
from tazza.errors import FileError, FormatError

IMAGES = np.arange(2 * 3 * 5, dtype=np.uint8).reshape(2, 3, 5)


def idx_bytes(array: NDArray[Any], code: int = 0x08) -> bytes:
    """Return the IDX form of an array whose elements are big-endian already."""
    return bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_plain_and_gzipped_files(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "images"
    path.write_bytes(pack(idx_bytes(IMAGES)))
    np.testing.assert_array_equal(read_idx_images(path), IMAGES)


@pytest.mark.parametrize("code", ELEMENTS)
def test_every_type_of_elements(tmp_path: Path, code: int) -> None:
    expected = np.array([[1, 2, 3], [100, 5, 6]], ELEMENTS[code])
    path = tmp_path / "array"
    path.write_bytes(idx_bytes(expected, code))
    np.testing.assert_array_equal(read_idx(path), expected)


WHOLE = idx_bytes(IMAGES)
BAD = {
    "empty": (b"", "is no IDX file: it begins with "),
    "other magic": (b"\x89PNG" + WHOLE[4:], "is no IDX file: it begins with 89 50 4e 47"),
    "unknown type": (b"\0\0\x0a\3" + WHOLE[4:], "is no IDX file"),
    "no extents": (WHOLE[:9], "5 bytes of extents, rank 3 needs 12"),
    "truncated": (WHOLE[:-1], "truncated: dims (2, 3, 5) need 30 bytes, 29 are there"),
    "huge extents": (WHOLE[:4] + b"\xff" * 12, "bytes, it has 16 at most"),
    "too long": (WHOLE + b"!", "too long: dims (2, 3, 5) are 30 bytes"),
    "gzip of the start": (gzip.compress(WHOLE)[:-12], "corrupt gzip file"),
    "gzip of rubbish": (gzip.compress(WHOLE)[:10] + b"\xff" * 20, "corrupt gzip file"),
    "gzip, huge extents": (gzip.compress(WHOLE[:4] + b"\xff" * 12), "at most"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_give_the_reason(tmp_path: Path, case: str) -> None:
    data, reason = BAD[case]
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(FormatError) as caught:
        read_idx(tmp_path / "bad")
    assert reason in str(caught.value)
    assert str(tmp_path / "bad") in str(caught.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        read_idx(tmp_path / "missing")
    with pytest.raises(FileError, match="no regular file but a folder"):
        read_idx(tmp_path)


def test_images_and_labels_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(WHOLE)
    (tmp_path / "labels").write_bytes(idx_bytes(np.array([1, 2], np.uint8)))
    with pytest.raises(FormatError, match=r"shape \(2, 3, 5\), not bytes of rank 1"):
        read_idx_labels(tmp_path / "images")
    with pytest.raises(FormatError, match=r"shape \(2,\), not bytes of rank 3"):
        read_idx_images(tmp_path / "labels")
