"""Small pictures to learn from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

CLASSES = ("bright", "dark")
SIDE = 8

Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]


def pictures(count: int, seed: int = 1, *, side: int = SIDE) -> Arrays:
    """Return easy pictures (N, S, S, 3) by turns of two classes: the upper half is bright, or it is dark."""
    labels = np.arange(count) % 2
    made = np.random.default_rng(seed).integers(0, 90, (count, side, side, 3)).astype(np.uint8)
    made[labels == 0, : side // 2] += 150
    return made, labels


def write_pictures(folder: Path, count: int, seed: int = 1, *, side: int = SIDE) -> None:
    """Write pictures into a sub-folder for each class."""
    for position, (picture, label) in enumerate(zip(*pictures(count, seed, side=side), strict=True)):
        place = folder / CLASSES[int(label)]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(place / f"{position:02}.png")


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `train` and `test`, and a picture that cannot be read."""
    folder = tmp_path_factory.mktemp("photos")
    write_pictures(folder / "train", 20)
    write_pictures(folder / "test", 6, seed=2)
    (folder / "train" / "dark" / "broken.jpg").write_bytes(b"no picture")
    return folder
