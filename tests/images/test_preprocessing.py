"""How pictures become inputs: as ImageInput does without chance, and by plain formulas where it has no such way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from tazza.errors import ArgumentError, FormatError, ShapeError
from tazza.images import CAFFE, IMAGENET, Preprocessing
from tazza.ops.data.picture_change import Change, changed

PIXELS = np.random.default_rng(1).integers(0, 256, (13, 17, 3)).astype(np.uint8)
PLAIN = Preprocessing(scale=1.0)


def as_image_input(pixels: NDArray[np.uint8], prepare: Preprocessing) -> NDArray[np.float32]:
    """Return what the operator ImageInput makes of a picture in a test, (C, H, W), blue first."""
    assert prepare.size is not None
    side = None if prepare.shorter is None else (prepare.shorter, prepare.shorter)
    mean, std = (np.resize(np.array(each, np.float32), 3).tolist() for each in (prepare.mean, prepare.std))
    change = Change(prepare.size, side, False, False, False, False, None, 0.0, mean, std)
    return np.moveaxis(changed(Image.fromarray(pixels), change, None, None, "a test"), -1, 0)


@given(st.integers(8, 30), st.integers(8, 30), st.integers(1, 7), st.integers(1, 7), st.integers(7, 20))
def test_crops_are_those_of_image_input(height: int, width: int, rows: int, columns: int, shorter: int) -> None:
    pixels = np.resize(PIXELS, (height, width, 3))
    prepare = Preprocessing((rows, columns), "crop", shorter, 1.0, (104.0, 117.0, 123.0), (2.0, 3.0, 5.0), "bgr")
    np.testing.assert_array_equal(prepare(pixels)[0], as_image_input(pixels, prepare))


def test_the_formula() -> None:
    prepare = Preprocessing(scale=0.5, mean=(1.0, 2.0, 3.0), std=(4.0, 5.0, 6.0))
    wanted = (PIXELS * 0.5 - np.array([1, 2, 3])) / np.array([4, 5, 6])
    np.testing.assert_allclose(prepare(PIXELS)[0], np.moveaxis(wanted, -1, 0), rtol=1e-6, atol=1e-6)
    last = replace(prepare, order="NHWC", colors="bgr", invert=True)(PIXELS)[0]
    np.testing.assert_allclose(last, ((255 - PIXELS[..., ::-1]) * 0.5 - [1, 2, 3]) / [4, 5, 6], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("height", "width"), [(13, 17), (17, 13), (5, 40), (6, 6)])
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_every_picture_gets_the_size(fit: Any, height: int, width: int) -> None:
    made = Preprocessing((6, 9), fit, scale=1.0)(np.full((height, width, 3), 7, np.uint8))
    assert made.shape == (1, 3, 6, 9)
    assert set(made.ravel()) <= ({0.0, 7.0} if fit == "pad" else {7.0})


def test_what_is_padded_is_the_mean() -> None:
    prepare = Preprocessing((4, 8), "pad", scale=1.0, mean=(7.0,))
    made = prepare(np.full((4, 4, 3), 9, np.uint8))
    assert made[0, 0].tolist() == [[0, 0, 2, 2, 2, 2, 0, 0]] * 4


def test_grey_and_alpha() -> None:
    grey = Preprocessing(scale=1.0, colors="grey")
    np.testing.assert_array_equal(grey(PIXELS)[0, 0], np.asarray(Image.fromarray(PIXELS).convert("L")))
    packed = Preprocessing(scale=1.0, colors="bgra", order="NHWC", dtype="uint8")(PIXELS)
    assert packed.dtype == np.uint8
    np.testing.assert_array_equal(packed[0, ..., :3], PIXELS[..., ::-1])
    assert set(packed[..., 3].ravel()) == {255}
    np.testing.assert_array_equal(PLAIN(PIXELS[..., 0])[0, 1], PIXELS[..., 0])  # grey bytes for three colours


def test_photographs_stand_upright(tmp_path: Path) -> None:
    """Cameras store pictures as the sensor lay, and write beside it how to turn them."""
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held a quarter turn to the left
    Image.fromarray(PIXELS).save(tmp_path / "a.png", exif=exif.tobytes())
    np.testing.assert_array_equal(PLAIN(tmp_path / "a.png")[0], np.moveaxis(np.rot90(PIXELS, -1), -1, 0))


def test_batches(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    batch = PLAIN(tmp_path / "a.png", PIXELS, Image.fromarray(PIXELS), str(tmp_path / "a.png"))
    assert batch.shape == (4, 3, 13, 17)
    assert (batch == batch[0]).all()
    with pytest.raises(ShapeError, match="17x13 and 13x17 pixels do not make one batch"):
        PLAIN(PIXELS, PIXELS.transpose(1, 0, 2))
    with pytest.raises(ArgumentError, match="no picture was given"):
        PLAIN()
    with pytest.raises(ArgumentError, match="float32 of shape"):
        PLAIN(PIXELS.astype(np.float32))


BAD: list[dict[str, Any]] = [
    {"size": 224},
    {"size": (224,)},
    {"mean": 104.0},
    {"size": (0, 3)},
    {"size": (1 << 20, 1 << 20)},
    {"fit": "squeeze"},
    {"shorter": 256},
    {"size": (224, 224), "fit": "crop", "shorter": 200},
    {"mean": (1.0, 2.0)},
    {"std": (0.0,)},
    {"scale": 0.0},
    {"scale": float("nan")},
    {"colors": "cmyk"},
    {"order": "CHWN"},
    {"dtype": "uint8"},
]


@pytest.mark.parametrize("values", BAD)
def test_values_out_of_range(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ArgumentError):
        Preprocessing(**values)
    if values.get("scale") == 0.0 or "scale" not in values:
        (tmp_path / "a.json").write_text(json.dumps(values))
        with pytest.raises(FormatError, match="is no preprocessing of pictures"):
            Preprocessing.read(tmp_path / "a.json")


@pytest.mark.parametrize("prepare", [Preprocessing(), CAFFE, IMAGENET, replace(CAFFE, order="NHWC", invert=True)])
def test_files_say_the_same(prepare: Preprocessing, tmp_path: Path) -> None:
    prepare.write(tmp_path / "preprocessing.json")
    assert Preprocessing.read(tmp_path / "preprocessing.json") == prepare


STRANGE = [
    "[]",
    '{"invert": "no"}',
    '{"sizes": 3}',
    '{"size": 3}',
    '{"size": [1, 2, 3]}',
    '{"mean": ["a"]}',
    '{"scale": true}',
    '{"fit": []}',
]


@pytest.mark.parametrize("text", STRANGE)
def test_strange_files(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(FormatError, match="is no preprocessing of pictures"):
        Preprocessing.read(tmp_path / "a.json")


@pytest.mark.parametrize("white", [1, 255])
def test_grey_levels_with_a_point_are_scaled(tmp_path: Path, white: int) -> None:
    levels = np.array([[0, 0.2, 0.6], [0.4, 0.8, 1]], np.float32)
    Image.fromarray(levels * white).save(tmp_path / "a.tif")
    made = Preprocessing(colors="grey").placed(tmp_path / "a.tif")
    assert made[..., 0].tolist() == [[0, 51, 153], [102, 204, 255]]


@pytest.mark.parametrize("wrong", [-0.5, 256, np.nan, np.inf])
def test_other_grey_levels_are_refused(tmp_path: Path, wrong: float) -> None:
    Image.fromarray(np.array([[0.5, wrong]], np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(FormatError, match="grey levels with a point"):
        Preprocessing().placed(tmp_path / "a.tif")


def test_sixteen_bits_are_their_high_bytes(tmp_path: Path) -> None:
    levels = np.array([[0, 255, 256], [1000, 40000, 65535]], np.uint16)
    Image.fromarray(levels).save(tmp_path / "a.png")
    assert Preprocessing(scale=1.0, colors="grey")(tmp_path / "a.png")[0, 0].tolist() == [[0, 0, 1], [3, 156, 255]]
