"""Pictures that a net makes: what was done to the input is undone, and files are whole or not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tazza.errors import ArgumentError, FileError, ShapeError
from tazza.images import CAFFE, IMAGENET, Preprocessing, as_picture, write_picture

PIXELS = np.random.default_rng(1).integers(0, 256, (5, 7, 3)).astype(np.uint8)


@pytest.mark.parametrize(
    "base", [CAFFE, IMAGENET, Preprocessing(), Preprocessing(invert=True, mean=(0.5,), std=(2.0,))]
)
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_a_net_that_changes_nothing_gives_the_picture_back(base: Preprocessing, order: Any) -> None:
    prepare = replace(base, size=None, fit="stretch", shorter=None, order=order)
    np.testing.assert_array_equal(as_picture(prepare(PIXELS)[0], prepare), PIXELS)


def test_packed_bytes_and_grey() -> None:
    packed = Preprocessing(scale=1.0, colors="bgra", order="NHWC", dtype="uint8")
    np.testing.assert_array_equal(as_picture(packed(PIXELS)[0], packed), PIXELS)
    grey = as_picture(np.array([[0, 128], [300, -4]], np.float32), Preprocessing(scale=1.0, colors="grey"))
    assert grey[..., 0].tolist() == [[0, 128], [255, 0]]


def test_ranges() -> None:
    made = as_picture(np.array([[[-1, 0, 1, np.nan]]], np.float32), Preprocessing(), (-1, 1))
    assert made.ravel().tolist() == [0, 128, 255, 0]
    with pytest.raises(ArgumentError, match="give two numbers"):
        as_picture(np.zeros((1, 2, 2), np.float32), Preprocessing(), (1, 1))


@pytest.mark.parametrize("shape", [(), (7,), (2, 5, 7), (1, 3, 5, 7), (3, 0, 7)])
def test_no_picture(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="is no picture"):
        as_picture(np.zeros(shape, np.float32), Preprocessing())


def test_files(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png", PIXELS)
    with Image.open(tmp_path / "a.png") as image:
        np.testing.assert_array_equal(np.asarray(image), PIXELS)
    write_picture(tmp_path / "a.png", PIXELS[..., :1])
    with Image.open(tmp_path / "a.png") as image:
        assert image.mode == "L"
    with pytest.raises(FileError, match="create the folder first"):
        write_picture(tmp_path / "nowhere" / "a.png", PIXELS)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
