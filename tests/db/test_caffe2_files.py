"""Databases that genuine Caffe2 wrote: MNIST's test images, as an LMDB (NCHW) and a minidb (NHWC).

The samples are the first 20 records of each. The whole files, and MNIST to compare them with, are looked for in the
folder `shared` beside the project, or where TAZZA_SHARED says.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.proto import TensorProto, TensorProtos
from tests.db.conftest import contents

Bytes = NDArray[np.uint8]
SAMPLE_LABELS = [7, 2, 1, 0, 4, 1, 4, 9, 5, 9, 0, 6, 9, 0, 1, 5, 9, 7, 3, 4]

FILES = [
    pytest.param("minidb", "mnist-test-nhwc-minidb.zip", [28, 28, 1], 1_000, id="minidb"),
    pytest.param("lmdb", "mnist-test-nchw-lmdb.tar.gz", [1, 28, 28], 10_000, id="lmdb"),
]


def images_and_labels(db_type: str, source: Path, dims: list[int]) -> tuple[Bytes, list[int]]:
    """Read all records and check their form and the numbering of their keys."""
    images: list[bytes] = []
    labels: list[int] = []
    for index, (key, value) in enumerate(contents(db_type, source)):
        image, label = TensorProtos.FromString(value).protos
        assert key == b"%08d" % index
        assert (list(image.dims), image.data_type) == (dims, TensorProto.BYTE)
        assert label.data_type == TensorProto.INT32
        images.append(image.byte_data)
        labels.extend(label.int32_data)
    return np.frombuffer(b"".join(images), np.uint8).reshape(-1, *dims), labels


@pytest.mark.parametrize(
    ("db_type", "name", "dims"), [("minidb", "mnist.minidb", [28, 28, 1]), ("lmdb", "mnist.lmdb", [1, 28, 28])]
)
def test_sample(sample: Callable[[str], Path], db_type: str, name: str, dims: list[int]) -> None:
    images, labels = images_and_labels(db_type, sample(name), dims)
    assert images.shape == (20, *dims)
    assert labels == SAMPLE_LABELS
    assert (images.max(axis=(1, 2, 3)) >= 250).all()


def idx(path: Path, header_bytes: int) -> Bytes:
    """Return what follows the header of one of MNIST's files."""
    return np.frombuffer(gzip.decompress(path.read_bytes())[header_bytes:], np.uint8)


@pytest.mark.parametrize(("db_type", "name", "dims", "count"), FILES)
def test_whole_file(
    extracted: Callable[[str], Path], shared_data: Path, db_type: str, name: str, dims: list[int], count: int
) -> None:
    images, labels = images_and_labels(db_type, extracted(name), dims)
    assert len(images) == count
    true_images = idx(shared_data / "mnist" / "t10k-images-idx3-ubyte.gz", 16).reshape(-1, *dims)
    true_labels = idx(shared_data / "mnist" / "t10k-labels-idx1-ubyte.gz", 8)
    np.testing.assert_array_equal(images, true_images[:count])
    np.testing.assert_array_equal(labels, true_labels[:count])
