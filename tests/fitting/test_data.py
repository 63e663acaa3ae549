"""Pictures in databases: decoded once, broken ones left out, numbers with mean 0 and deviation 1."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tazza.db.image_source import databases_once
from tazza.db.images import write_records
from tazza.errors import ArgumentError, FileError, FormatError
from tazza.fitting.data import look, prepare_pictures
from tazza.fitting.records import PictureRecords
from tazza.fitting.source import find_source
from tazza.images import Preprocessing
from tests.fitting.conftest import pictures, write_pictures

SMALL = Preprocessing((4, 4), "crop")


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder, by path; locks of readers change as they come and go."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock.mdb")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_what_cannot_be_read_is_named_and_left_out(photos: Path, tmp_path: Path) -> None:
    made = prepare_pictures(find_source(photos), tmp_path, SMALL, seed=1)
    assert (made.databases.train.count, made.databases.test.count, made.names) == (20, 6, ("bright", "dark"))
    assert len(made.skipped) == 1
    assert "broken.jpg" in made.skipped[0]
    assert made.nbytes == 26 * 4 * 4 * 3


def test_a_share_is_held_back_and_numbers_are_normal(tmp_path: Path) -> None:
    images, labels = pictures(40)
    made = prepare_pictures(find_source((images, labels)), tmp_path, Preprocessing((8, 8), "crop"), seed=1)
    assert (made.databases.train.count, made.databases.test.count) == (32, 8)
    with PictureRecords(made.databases.train) as learned, PictureRecords(made.databases.test) as tested:
        pixels, classes = learned.batch(range(32))
        others, _ = tested.batch(range(8))
        again, _ = learned.batch([31, 0])
    assert {each.tobytes() for each in [*pixels, *others]} == {each.tobytes() for each in images}
    assert np.bincount(classes).tolist() == [16, 16]
    assert np.array_equal(again, pixels[[31, 0]])
    numbers = made.prepare.numbers(pixels)
    np.testing.assert_allclose(numbers.mean((0, 2, 3)), 0, atol=1e-3)
    np.testing.assert_allclose(numbers.std((0, 2, 3)), 1, atol=1e-3)


def test_pictures_are_decoded_once(photos: Path, tmp_path: Path) -> None:
    source = find_source(photos)
    first = prepare_pictures(source, tmp_path, SMALL, seed=1)
    before = (tmp_path / "train.lmdb" / "data.mdb").stat().st_mtime_ns
    again = prepare_pictures(source, tmp_path, SMALL, seed=1)
    assert (tmp_path / "train.lmdb" / "data.mdb").stat().st_mtime_ns == before
    assert (again.prepare, again.skipped) == (first.prepare, ())
    other = prepare_pictures(source, tmp_path, Preprocessing((2, 2), "crop"), seed=1)
    with PictureRecords(other.databases.train) as records:
        assert records.batch([0])[0].shape == (1, 2, 2, 3)


def test_nothing_that_can_be_read(photos: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "bad" / name).mkdir(parents=True)
        for place in range(3):
            shutil.copy(photos / "train" / "dark" / "broken.jpg", tmp_path / "bad" / name / f"{place}.jpg")
    with pytest.raises(FormatError, match="none of 6 pictures"):
        look(find_source(tmp_path / "bad"))
    with pytest.raises(FormatError, match="none is left"):
        prepare_pictures(find_source(tmp_path / "bad"), tmp_path / "data", SMALL, seed=1)


def test_what_was_learned_is_never_tested(tmp_path: Path) -> None:
    """A training goes on with the pictures that it began with; with others, nothing is touched."""
    write_pictures(tmp_path / "photos", 20)
    out = tmp_path / "data"
    first = prepare_pictures(find_source(tmp_path / "photos"), out, SMALL, seed=1)
    assert prepare_pictures(find_source(tmp_path / "photos"), out, SMALL, seed=1, going_on=True) == first
    before = contents(out)
    shutil.copy(tmp_path / "photos" / "dark" / "01.png", tmp_path / "photos" / "bright" / "more.png")
    changed = find_source(tmp_path / "photos")
    for seed, source in ((1, changed), (2, changed)):
        with pytest.raises(ArgumentError, match="changed since the training began"):
            prepare_pictures(source, out, SMALL, seed=seed, going_on=True)
    assert contents(out) == before
    assert prepare_pictures(changed, out, SMALL, seed=1).databases.train.count == 17


def test_databases_are_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    """Two that write into a folder do not mix, and one that fails leaves what was there."""
    out = tmp_path / "data"

    def write(name: str, train: Path, test: Path) -> None:
        for path in (train, test):
            write_records("lmdb", path, iter([f"{name} {path.stem}".encode()]), 1)

    def within(train: Path, test: Path) -> None:
        write("first", train, test)
        with pytest.raises(FileError, match="another process writes databases into"):
            databases_once(out, {"data": "second"}, partial(write, "second"), "second")

    def failing(train: Path, test: Path) -> None:
        write_records("lmdb", train, iter([b"third"]), 1)
        raise FormatError(f"no picture for {test.name}")

    databases_once(out, {"data": "first"}, within, "first")
    before = contents(out)
    with pytest.raises(FormatError, match=r"no picture for test\.lmdb"):
        databases_once(out, {"data": "third"}, failing, "third")
    assert contents(out) == before
    assert {path.split("/")[0] for path in before} == {"train.lmdb", "test.lmdb", "made_from.json"}


@pytest.mark.parametrize(("share", "told"), [(0.2, "none of 4 pictures is held back"), (0.9, "is left to learn from")])
def test_too_few_of_each_class(tmp_path: Path, share: float, told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        prepare_pictures(find_source(pictures(4)), tmp_path / "data", SMALL, seed=1, test_share=share)
    assert not (tmp_path / "data").exists()


def test_a_look_tells_colours_and_size(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (5, 4), (7, 7, 7)).save(tmp_path / name / "grey.png")
    assert (look(find_source(tmp_path)).channels, look(find_source(tmp_path)).size) == (1, (4, 5))
    Image.new("RGB", (6, 4), (7, 8, 7)).save(tmp_path / "b" / "green.png")
    assert (look(find_source(tmp_path)).channels, look(find_source(tmp_path)).size) == (3, None)


@pytest.mark.parametrize(
    "prepare", [Preprocessing(), Preprocessing((4, 4), "pad"), Preprocessing((4, 4), order="NHWC")]
)
def test_what_pictures_cannot_become(photos: Path, tmp_path: Path, prepare: Preprocessing) -> None:
    with pytest.raises(ArgumentError, match="pictures for training have one size"):
        prepare_pictures(find_source(photos), tmp_path, prepare, seed=1)
