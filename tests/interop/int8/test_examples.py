"""Batches from arrays, pictures, folders and databases: the same images, whatever they lie in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.db.images import LabelledImages, write_image_records
from tazza.errors import ArgumentError, DBError, FileError, FormatError, ShapeError
from tazza.images import Preprocessing
from tazza.interop.int8 import Examples, array_batches, file_examples
from tests.db.test_idx import idx_bytes

IMAGES = np.random.default_rng(1).integers(0, 256, (7, 5, 4)).astype(np.uint8)
WANTED = (IMAGES[:, None] / 256).astype(np.float32)


def joined(examples: Examples) -> NDArray[Any]:
    return np.concatenate([batch["data"] for batch in examples])


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 5), st.one_of(st.none(), st.integers(1, 30)))
def test_batches_are_full_but_for_the_last(counts: list[int], size: int, most: int | None) -> None:
    numbers = iter(range(1000))
    parts = [{"x": np.array([next(numbers) for _ in range(count)], np.int64)} for count in counts]
    found = list(Examples(lambda: iter(parts), size, most))
    total = sum(counts) if most is None else min(sum(counts), most)
    assert [n for batch in found for n in batch["x"].tolist()] == list(range(total))
    assert all(len(batch["x"]) == size for batch in found[:-1])
    assert all(0 < len(batch["x"]) <= size for batch in found)


def test_a_part_is_not_read_before_it_is_needed() -> None:
    read: list[int] = []

    def parts() -> Any:
        for number in range(5):
            read.append(number)
            yield {"x": np.zeros(4)}

    assert len(next(iter(Examples(parts, 4, 8)))["x"]) == 4
    assert read == [0]
    assert len(list(Examples(parts, 4, 8))) == 2
    assert read == [0, 0, 1]


def write(kind: str, folder: Path) -> Path:
    """Write the images in one of the ways."""
    if kind == "minidb":
        write_image_records("minidb", folder / "images.db", LabelledImages(IMAGES, np.arange(7, dtype=np.int32)))
        return folder / "images.db"
    if kind == "lmdb":
        write_image_records("lmdb", folder / "images", LabelledImages(IMAGES, np.arange(7, dtype=np.int32)))
        return folder / "images"
    if kind == "idx":
        (folder / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(IMAGES))
        return folder
    if kind == "npy":
        np.save(folder / "images.npy", IMAGES)
        return folder / "images.npy"
    from PIL import Image

    for number, image in enumerate(IMAGES):
        Image.fromarray(image).save(folder / f"{number}.png")
    (folder / "notes.md").write_text("no picture")
    return folder


@pytest.mark.parametrize("kind", ["minidb", "lmdb", "idx", "npy", "pictures"])
def test_images_are_the_same_wherever_they_lie(kind: str, tmp_path: Path) -> None:
    found = file_examples(write(kind, tmp_path), "data", batch_size=3)
    assert [len(batch["data"]) for batch in found] == [3, 3, 1]
    np.testing.assert_array_equal(joined(found), WANTED)
    np.testing.assert_array_equal(joined(found), WANTED)  # they can be gone through again
    some = file_examples(tmp_path if kind in ("idx", "pictures") else write_path(kind, tmp_path), "data", most=4)
    assert len(joined(some)) == 4


def write_path(kind: str, folder: Path) -> Path:
    return folder / {"minidb": "images.db", "lmdb": "images", "npy": "images.npy"}[kind]


def test_pixels(tmp_path: Path) -> None:
    path = write("minidb", tmp_path)
    found = file_examples(path, "data", prepare=Preprocessing(scale=2.0, colors="grey", invert=True))
    np.testing.assert_array_equal(joined(found), (255 - IMAGES[:, None].astype(np.float32)) * 2)


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        file_examples(tmp_path / "nowhere", "data")
    with pytest.raises(FileError, match="has no images"):
        file_examples(tmp_path, "data")
    with pytest.raises(ArgumentError, match="at least 1 of each"):
        file_examples(tmp_path, "data", batch_size=0)
    with pytest.raises(ShapeError, match="first extents"):
        array_batches({"x": np.zeros(3), "y": np.zeros(4)})
    (tmp_path / "some.db").write_bytes(b"no database at all")
    with pytest.raises(DBError):
        list(file_examples(tmp_path / "some.db", "data"))
    np.save(tmp_path / "a.npy", np.zeros((2, 3), np.float32))
    np.save(tmp_path / "b.npy", np.zeros((3, 3), np.float32))
    with pytest.raises(ShapeError, match="give pictures one size"):
        list(file_examples(tmp_path, "data"))


def test_folders_within_are_read_and_broken_pictures_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "a.npy", IMAGES[0][None, None])
    np.save(tmp_path / "b" / "c.npy", IMAGES[1][None, None])
    (tmp_path / "b" / "d.png").write_bytes(b"no picture")
    examples = file_examples(tmp_path, "data")
    for _ in range(2):
        np.testing.assert_array_equal(joined(examples), WANTED[:2])
    assert [message for message in caplog.messages if "d.png" in message] == caplog.messages
    assert len(caplog.messages) == 1
    with pytest.raises(FormatError, match=r"d\.png"):
        joined(file_examples(tmp_path / "b" / "d.png", "data"))
