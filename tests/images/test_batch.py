"""Images from files of all kinds, as a net takes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tazza.errors import ShapeError
from tazza.images import Preprocessing, image_files, read_images
from tests.db.test_idx import idx_bytes

IMAGES = np.random.default_rng(1).integers(0, 256, (3, 5, 4)).astype(np.uint8)
GREY = Preprocessing(colors="grey")


def test_the_same_images_wherever_they_lie(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", IMAGES)
    np.save(tmp_path / "b.npy", IMAGES[:, np.newaxis])
    (tmp_path / "c-idx3-ubyte").write_bytes(idx_bytes(IMAGES))
    for name in ("a.npy", "b.npy", "c-idx3-ubyte"):
        made = read_images(tmp_path / name, GREY)
        np.testing.assert_array_equal(made, (IMAGES[:, np.newaxis] / 256).astype(np.float32))
    Image.fromarray(IMAGES[0]).save(tmp_path / "d.png")
    np.testing.assert_array_equal(read_images(tmp_path / "d.png", GREY)[0, 0], (IMAGES[0] / 256).astype(np.float32))


@pytest.mark.parametrize("size", [(5, 4), (10, 8)])
def test_arrays_get_size_and_colours(size: tuple[int, int], tmp_path: Path) -> None:
    np.save(tmp_path / "grey.npy", IMAGES)
    np.save(tmp_path / "rgb.npy", np.stack([IMAGES, IMAGES + 1, IMAGES + 2], axis=1))
    prepare = Preprocessing(size, scale=1.0)
    assert read_images(tmp_path / "grey.npy", prepare).shape == (3, 3, *size)
    colored = read_images(tmp_path / "rgb.npy", prepare)
    assert colored.shape == (3, 3, *size)
    np.testing.assert_array_equal(colored[:1], prepare(np.stack([IMAGES[0], IMAGES[0] + 1, IMAGES[0] + 2], axis=-1)))


def test_other_numbers_stay_as_they_are(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", IMAGES.astype(np.float64))
    made = read_images(tmp_path / "a.npy", Preprocessing((9, 9), mean=(3.0,), colors="grey", order="NHWC"))
    np.testing.assert_array_equal(made, IMAGES[..., np.newaxis].astype(np.float32))


def test_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 7, 3, 5), np.uint8))
    with pytest.raises(ShapeError, match="cannot be scaled"):
        read_images(tmp_path / "a.npy", Preprocessing((9, 9)))
    with pytest.raises(ShapeError, match="7 channels"):
        read_images(tmp_path / "a.npy", Preprocessing(mean=(1.0, 2.0, 3.0)))
    np.save(tmp_path / "b.npy", np.zeros(4))
    with pytest.raises(ShapeError, match="not \\(H, W\\)"):
        read_images(tmp_path / "b.npy", GREY)


def test_folders(tmp_path: Path) -> None:
    """All below, by name; what is hidden or no image is left out; a link that leads back ends the walk there."""
    for name in ("b/2.JPG", "b/1.png", "a.npy", ".hidden.png", "notes.txt", "b/labels-idx1-ubyte", "c/t10k-idx3-ubyte"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "c" / "back").symlink_to(tmp_path)
    found = [path.relative_to(tmp_path).as_posix() for path in image_files(tmp_path)]
    assert found == ["a.npy", "b/1.png", "b/2.JPG", "c/t10k-idx3-ubyte"]
