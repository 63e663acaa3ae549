"""Labelled images: splitting, scaling, and records."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.db import open_db
from tazza.db.images import (
    LabelledImages,
    count_records,
    held_back,
    load_digits,
    load_idx,
    scale_bilinear,
    write_image_records,
)
from tazza.errors import DBError, FileError, FormatError, ShapeError, UnavailableError
from tazza.proto import TensorProtos
from tazza.tensor.tensor_proto import tensor_proto_to_array
from tests.db.test_idx import idx_bytes


def some_images(count: int = 5) -> LabelledImages:
    """Return images (count, 3, 4), each of its own values."""
    images = np.arange(count * 12, dtype=np.uint8).reshape(count, 3, 4)
    return LabelledImages(images, np.arange(count, dtype=np.int32) + 10)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.integers(0, 9))
def test_held_back_divides_every_label(labels: list[int], share: float, seed: int) -> None:
    array = np.array(labels)
    train, test = held_back(array, share, seed)
    assert sorted([*train, *test]) == list(range(len(labels)))
    for label in set(labels):
        assert np.sum(array[test] == label) == round(share * labels.count(label))


def test_held_back_depends_on_the_seed_alone() -> None:
    labels = np.arange(40) % 4
    first, again, other = (held_back(labels, 0.25, seed)[1].tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_bilinear_scaling_keeps_corners_and_interpolates() -> None:
    image = np.array([[[0, 200], [40, 240]]], float)
    scaled = scale_bilinear(image, 4)[0]
    assert scaled[[0, 0, 3, 3], [0, 3, 0, 3]].tolist() == [0, 200, 40, 240]
    assert scaled[0].tolist() == [0, 50, 150, 200]
    assert scaled[1].tolist() == [10, 60, 160, 210]


@pytest.mark.slow  # importing scikit-learn takes seconds
def test_digits_of_scikit_learn() -> None:
    digits = load_digits()
    assert digits.images.shape == (1797, 28, 28)
    assert (digits.images.min(), digits.images.max()) == (0, 255)
    assert digits.images[:, :4].max() == digits.images[:, :, -4:].max() == 0
    assert np.bincount(digits.labels).min() == 174


def test_without_scikit_learn_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UnavailableError, match=r"pip install 'tazza\[digits\]'"):
        load_digits()


def test_records_hold_image_and_label(tmp_path: Path, db_type: str) -> None:
    if db_type == "protodb":
        pytest.skip("its records are tensors with a name")
    images = some_images()
    seen: list[tuple[int, int]] = []
    write_image_records(db_type, tmp_path / "db", images, lambda done, total: seen.append((done, total)))
    assert count_records(db_type, tmp_path / "db") == 5
    assert seen == [(5, 5)]
    with open_db(db_type, tmp_path / "db") as db, db.cursor() as cursor:
        for position, (key, value) in enumerate(cursor):
            image, label = map(tensor_proto_to_array, TensorProtos.FromString(value).protos)
            assert key == f"{position:08}".encode()
            np.testing.assert_array_equal(image, images.images[position : position + 1])
            assert label.shape == ()
            assert label == images.labels[position]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DBError, match="there is no folder"):
        write_image_records("minidb", tmp_path / "missing" / "db", some_images())


def write_idx_folder(folder: Path, train: int = 7, test: int = 3) -> Path:
    """Write the four files of a small MNIST of 28 x 28 pixels, labels 0 to 9 in turn."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(3)
    for name, count in (("train", train), ("t10k", test)):
        images = random.integers(0, 256, (count, 28, 28), np.uint8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx_bytes(images))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx_bytes((np.arange(count) % 10).astype(np.uint8)))
    return folder


def test_idx_folders(tmp_path: Path) -> None:
    folder = write_idx_folder(tmp_path / "mnist")
    assert len(load_idx(folder, "train")) == 7
    assert load_idx(folder, "test").labels.tolist() == [0, 1, 2]
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(2, np.uint8)))
    with pytest.raises(FormatError, match="has 3 images and 't10k-labels-idx1-ubyte' has 2 labels"):
        load_idx(folder, "test")
    (folder / "train-images-idx3-ubyte").unlink()
    with pytest.raises(FileError, match="has no file 'train-images-idx3-ubyte'"):
        load_idx(folder, "train")


def test_images_need_labels() -> None:
    with pytest.raises(ShapeError, match=r"labels of shape \(2,\)"):
        LabelledImages(np.zeros((3, 2, 2), np.uint8), np.zeros(2, np.int32))
