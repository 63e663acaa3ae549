"""Pictures in databases: decoded once, broken ones left out, numbers with mean 0 and deviation 1."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tazza.errors import ArgumentError, FormatError
from tazza.fitting.data import look, prepare_pictures
from tazza.fitting.records import PictureRecords
from tazza.fitting.source import find_source
from tazza.images import Preprocessing
from tests.fitting.conftest import pictures

SMALL = Preprocessing((4, 4), "crop")


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
        shutil.copy(photos / "train" / "dark" / "broken.jpg", tmp_path / "bad" / name)
    with pytest.raises(FormatError, match="none of 2 pictures"):
        look(find_source(tmp_path / "bad"))
    with pytest.raises(FormatError, match="none is left"):
        prepare_pictures(find_source(tmp_path / "bad"), tmp_path / "data", SMALL, seed=1)


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
