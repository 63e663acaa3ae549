"""Batches by number, and what chance does to pictures."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.fitting.augmentation import Augmentation
from tazza.fitting.batches import PictureBatches
from tazza.fitting.data import PictureData, prepare_pictures
from tazza.fitting.records import PictureRecords
from tazza.fitting.source import find_source
from tazza.images import Preprocessing
from tests.fitting.conftest import pictures

ALL = Augmentation(flip=True, shift=2, zoom=0.2, rotate=20, light=0.3)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PictureData:
    """Return 12 pictures to learn from."""
    source = find_source(pictures(15))
    return prepare_pictures(source, tmp_path_factory.mktemp("data"), Preprocessing((8, 8), "crop"), seed=1)


@pytest.fixture
def batches(data: PictureData) -> Generator[PictureBatches]:
    """Return batches of 5."""
    with PictureBatches(PictureRecords(data.databases.train), 5, data.prepare, ALL, seed=3) as made:
        yield made


def test_each_round_has_every_picture_once(batches: PictureBatches) -> None:
    count = 12
    stream = np.concatenate([batches.places(number) for number in range(12)])  # five rounds
    rounds = stream.reshape(5, count)
    assert (np.sort(rounds, axis=1) == np.arange(count)).all()
    assert len({each.tobytes() for each in rounds}) == 5


def test_a_batch_follows_from_its_number(data: PictureData, batches: PictureBatches) -> None:
    made = [batches.batch(number) for number in range(6)]
    with PictureBatches(PictureRecords(data.databases.train), 5, data.prepare, ALL, seed=3) as others:
        for number in (4, 5, 1, 0, 3):
            again = others.batch(number)
            assert all(np.array_equal(again[name], made[number][name]) for name in again)
    with PictureBatches(PictureRecords(data.databases.train), 5, data.prepare, ALL, seed=4) as others:
        assert not np.array_equal(others.batch(0)["data"], made[0]["data"])


@pytest.mark.parametrize("field", ["flip", "shift", "zoom", "rotate", "light"])
def test_a_change_changes_copies_and_hangs_on_the_generator_alone(field: str) -> None:
    values: dict[str, Any] = {"flip": True, "shift": 3, "zoom": 0.5, "rotate": 45.0, "light": 0.5}
    change = Augmentation(**{field: values[field]})
    pixels = pictures(8)[0]
    before = pixels.copy()
    made, again = (change(pixels, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(pixels, before)
    assert np.array_equal(made, again)
    assert not np.array_equal(made, pixels)
    assert (made.shape, made.dtype) == (pixels.shape, pixels.dtype)


def test_without_any_change_pictures_stay() -> None:
    pixels = pictures(3)[0]
    assert Augmentation()(pixels, np.random.default_rng(1)) is pixels


def test_a_quarter_turn_and_a_mirror() -> None:
    """Turned about the middle, clockwise; the edges of pixels fall on each other."""
    pixels = pictures(1)[0]

    class Quarter:
        def uniform(self, low: float, high: float, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return np.full(count, 90.0 if low < 0 else 1.0)

    turned = Augmentation(rotate=90)(pixels, Quarter())  # pyright: ignore[reportArgumentType] -- draws nothing else
    assert np.abs(turned[0].astype(int) - np.rot90(pixels[0], -1)).max() <= 1  # Pillow cuts fractions off
    flipped = Augmentation(flip=True)(np.repeat(pixels, 20, axis=0), np.random.default_rng(1))
    assert {each.tobytes() for each in flipped} == {pixels[0].tobytes(), pixels[0, :, ::-1].tobytes()}


@pytest.mark.parametrize("given", [{"shift": -1}, {"zoom": 1.0}, {"rotate": 181.0}, {"light": -0.1}])
def test_changes_that_cannot_be(given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(given))):
        Augmentation(**given)


@pytest.mark.parametrize("shift", [3, 1_000_000])
def test_pictures_are_not_shifted_out_of_sight(shift: int) -> None:
    """However far, it takes no memory: black around a picture of a million pixels would."""
    with pytest.raises(ArgumentError, match=f"shift = {shift} of pictures of 4x3 pixels"):
        Augmentation(shift=shift)(np.zeros((1, 3, 4, 1), np.uint8), np.random.default_rng(1))
