"""What is found by a name: folders, arrays, databases, and what is wrong with them."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tazza.db import Mode, open_db
from tazza.errors import ArgumentError, FileError, FormatError, ShapeError, TazzaError
from tazza.fitting.data import look
from tazza.fitting.source import Half, find_source, is_picture_folder
from tazza.images import Preprocessing
from tazza.proto import TensorProto, TensorProtos
from tests.fitting.conftest import CLASSES, SIDE, pictures, write_pictures

PLAIN = Preprocessing()


def seen(half: Half) -> list[Any]:
    """Return all pictures of a half, as pixels, those that cannot be read left out."""
    found: list[Any] = []
    for _, picture in half.pictures(np.arange(len(half.labels))):
        try:
            found.append(PLAIN.placed(picture))
        except FormatError:
            continue
    return found


def same(half: Half, count: int, seed: int) -> bool:
    """Whether a half has these pictures, in whatever order."""
    wanted = {picture.tobytes() for picture in pictures(count, seed)[0]}
    return {picture.tobytes() for picture in seen(half)} == wanted


def test_a_folder_with_a_folder_for_tests(photos: Path) -> None:
    found = find_source(photos)
    assert found.names == CLASSES
    assert found.test is not None
    assert same(found.train, 20, 1)
    assert same(found.test, 6, 2)
    assert np.bincount(found.train.labels).tolist() == [10, 11]


def test_a_folder_of_classes_alone(photos: Path) -> None:
    found = find_source(photos / "test")
    assert (found.names, found.test, found.train.labels.tolist()) == (CLASSES, None, [0, 0, 0, 1, 1, 1])
    assert is_picture_folder(photos / "test")
    assert not is_picture_folder(photos / "test" / "dark")


@pytest.mark.parametrize("names", [("train", "bus"), ("Train", "bus", "test"), ("training", "bus")])
def test_a_class_may_be_called_as_a_folder_to_learn_from(photos: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        shutil.copytree(photos / "test" / "dark", tmp_path / name)
    found = find_source(tmp_path)
    assert (found.names, found.test) == (tuple(sorted(names)), None)


def test_folders_to_learn_from_and_to_be_tested_on_are_no_two_classes(photos: Path, tmp_path: Path) -> None:
    for name in ("train", "test"):
        shutil.copytree(photos / "test" / "dark", tmp_path / name)
    with pytest.raises(FileError, match="pictures of 0 classes"):
        find_source(tmp_path)


def test_test_data_go_by_the_names_of_classes(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "test" / "dark", tmp_path / "dark")
    shutil.copytree(photos / "test" / "dark", tmp_path / "bright")
    found = find_source(photos / "test", tmp_path)
    assert found.test is not None
    assert found.test.labels.tolist() == [0, 0, 0, 1, 1, 1]
    (tmp_path / "dark").rename(tmp_path / "grim")
    with pytest.raises(ArgumentError, match="class 'grim'"):
        find_source(photos / "test", tmp_path)
    with pytest.raises(ArgumentError, match="brings its own test pictures"):
        find_source(photos, tmp_path)


@pytest.mark.parametrize("names", [("images", "labels"), ("x_train", "y_train")])
def test_arrays_in_a_file(tmp_path: Path, names: tuple[str, str]) -> None:
    images, labels = pictures(6)
    arrays: dict[str, Any] = {names[0]: images, names[1]: labels[:, np.newaxis], "x_test": images, "y_test": labels}
    np.savez(tmp_path / "a.npz", **arrays)
    found = find_source(tmp_path / "a.npz")
    assert found.test is not None
    assert found.names == ("0", "1")
    assert same(found.train, 6, 1)


def test_planes_and_grey_arrays() -> None:
    images, labels = pictures(4)
    assert same(find_source((np.moveaxis(images, -1, 1), labels)).train, 4, 1)
    found = find_source(((images[..., 0], labels), (images[..., 0], labels)))
    assert (look(found).channels, look(found).size) == (1, (SIDE, SIDE))
    assert found.test is not None


def png(picture: Any) -> bytes:
    """Return the bytes of a file."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "png")
    return file.getvalue()


@pytest.mark.parametrize("form", ["planes", "last", "file"])
@pytest.mark.parametrize("db_type", ["lmdb", "minidb"])
def test_databases(tmp_path: Path, form: str, db_type: str) -> None:
    path = tmp_path / "db"
    with open_db(db_type, path, Mode.NEW) as db, db.transaction() as transaction:
        for number, (picture, label) in enumerate(zip(*pictures(5), strict=True)):
            laid = np.moveaxis(picture, -1, 0) if form == "planes" else picture
            image = TensorProto(data_type=TensorProto.BYTE, dims=laid.shape, byte_data=laid.tobytes())
            if form == "file":
                image = TensorProto(data_type=TensorProto.STRING, dims=[1], string_data=[png(picture)])
            told = TensorProto(data_type=TensorProto.INT32, int32_data=[int(label)])
            transaction.put(f"{number:03}", TensorProtos(protos=[image, told]).SerializeToString())
    found = find_source(path)
    assert found.train.labels.tolist() == [0, 1, 0, 1, 0]
    assert same(found.train, 5, 1)
    (_, third), (_, fifth) = found.train.pictures(np.array([2, 4]))
    assert np.array_equal(PLAIN.placed(third), pictures(5)[0][2])
    assert np.array_equal(PLAIN.placed(fifth), pictures(5)[0][4])


def test_files_that_change_have_another_stamp(tmp_path: Path) -> None:
    write_pictures(tmp_path, 4)
    before = find_source(tmp_path).stamp
    assert find_source(tmp_path).stamp == before
    Image.new("RGB", (3, 3)).save(tmp_path / "dark" / "new.png")
    assert find_source(tmp_path).stamp != before


BAD: dict[str, tuple[Any, type[TazzaError], str]] = {
    "nothing": ("nowhere", FileError, "does not exist"),
    "no classes": (Path(__file__).parent, FileError, "pictures of 0 classes"),
    "floats": ((np.zeros((2, 4, 4)), np.arange(2)), ShapeError, "float64"),
    "five colours": ((np.zeros((2, 5, 4, 5), np.uint8), np.arange(2)), ShapeError, "no axis of 1 or 3 colours"),
    "labels": ((np.zeros((2, 4, 4), np.uint8), np.arange(3)), ShapeError, "labels"),
    "below 0": ((np.zeros((2, 4, 4), np.uint8), np.arange(2) - 1), ShapeError, "from -1 to 0"),
    "classes without pictures": (
        (np.zeros((4, 4, 4), np.uint8), np.array([0, 1, 0, 1048575])),
        ArgumentError,
        "1048576 classes, up to '1048575', and 4 pictures",
    ),
    "no path": (None, ArgumentError, "NoneType is no data"),
    "a number": (5, ArgumentError, "int is no data"),
    "empty": ((), ArgumentError, "two of these"),
    "no pair": (((1, 2), 3), ArgumentError, "two of these"),
    "one list": (([1, 2, 3],), ArgumentError, "two of these"),
    "a ragged list": ((([[1], [2, 3]], [0, 1]),) * 2, ArgumentError, "list is no array"),
    "three": (((1, 2), (3, 4), (5, 6)), ArgumentError, "two of these"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data(case: str) -> None:
    given, kind, told = BAD[case]
    with pytest.raises(kind, match=told):
        find_source(given)


def test_bad_files_of_arrays(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="is no file of arrays"):
        find_source(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("images.npy", "labels.npy"):
            archive.writestr(name, b"no array")
    with pytest.raises(FormatError, match="its images is no array"):
        find_source(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", pixels=np.zeros(3))
    with pytest.raises(FormatError, match="no arrays of pictures and labels"):
        find_source(tmp_path / "a.npz")


def test_classes_that_only_tests_have_are_refused(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "all")
    shutil.move(tmp_path / "all" / "test" / "dark", tmp_path / "all" / "test" / "grim")
    with pytest.raises(ArgumentError, match="class 'grim'"):
        find_source(tmp_path / "all")
