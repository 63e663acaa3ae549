"""Labelled pictures by what a user names: a folder with a sub-folder for each class, a database, arrays, digits.

    found = find_source("photos")
    found.names, len(found.train.labels)

Nothing is decoded here: a `Half` gives its pictures one by one, as `Preprocessing` takes them, when they are asked for.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.base import open_db
from tazza.db.image_source import DIGITS, database_type
from tazza.db.images import IDX_KINDS, LabelledImages, find_idx, load_digits, load_idx
from tazza.db.picture import FORMATS
from tazza.errors import (
    ArgumentError,
    DBError,
    FileError,
    FormatError,
    OutOfMemoryError,
    ShapeError,
    TazzaError,
)
from tazza.images.files import image_files
from tazza.proto import TensorProto, TensorProtos
from tazza.proto.message import parse
from tazza.runtime.files import kind_of, names_in, one_line, open_regular, resolved, shown, status_of
from tazza.runtime.memory import available_bytes
from tazza.tensor.tensor_proto import tensor_proto_to_array

TRAIN_FOLDERS, TEST_FOLDERS = ("train", "training"), ("test", "val", "valid", "validation")
"""What folders within one are called that hold what to learn from, and what to be tested on."""
ARRAY_NAMES = {
    "train": (("images", "labels"), ("x_train", "y_train"), ("train_images", "train_labels"), ("x", "y")),
    "test": (("test_images", "test_labels"), ("x_test", "y_test")),
}
"""What the arrays of a .npz file are called."""
LABEL_MAX = 1 << 20
"""Classes of arrays and databases are numbers below."""

Picture = Any
"""What `Preprocessing` takes: a path, the bytes of a file, or pixels (H, W) or (H, W, 3)."""
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Half:
    """What to learn from, or to be tested on: a class (N) for each picture, and what gives some of the pictures.

    `pictures(places)` gives the pictures at ascending places, each with a name for messages.
    """

    labels: NDArray[np.int64]
    pictures: Callable[[Places], Iterator[tuple[str, Picture]]]


@dataclass(frozen=True, eq=False)
class Source:
    """Labelled pictures: to learn from, and to be tested on where they bring that; what the classes are called.

    `stamp` tells whether pictures that were decoded once are still those that would be decoded now.
    """

    origin: str
    names: tuple[str, ...]
    train: Half
    test: Half | None
    stamp: object


ArraysGiven = tuple[Any, Any] | tuple[tuple[Any, Any], tuple[Any, Any]]
"""Pictures and labels; or a pair of those to learn from, and one of those to be tested on."""


def find_source(data: str | os.PathLike[str] | ArraysGiven, test_data: str | os.PathLike[str] | None = None) -> Source:
    """Return the pictures that somebody names.

    Args:
        data: a folder of pictures with a sub-folder for each class, or with `train` and `test` (or `val`) that have
            these; a .npz file; an LMDB or LevelDB folder or a minidb; a folder with MNIST's IDX files; `digits`. Or
            arrays: (pictures, labels), or ((pictures, labels), (pictures, labels)) with those to be tested on, where
            pictures are bytes (N, H, W), (N, H, W, C) or (N, C, H, W), of 1 or 3 colours.
        test_data: of the same kinds, what to be tested on.

    Raises:
        FileError, DBError, FormatError, ShapeError: there is nothing of the kind, or it is broken.
        ArgumentError: `data` are neither a path nor arrays; `test_data` beside data that bring their own; classes there
            that are not in `data`; more classes than pictures to learn from.
    """
    found = _of_arrays(data) if isinstance(data, tuple) else _of_path(data)
    if len(found.names) > len(found.train.labels):
        raise ArgumentError(
            f"{found.origin} has {len(found.names)} classes, up to {found.names[-1]!r}, and {len(found.train.labels)}"
            " pictures to learn from",
            hint="classes are counted from 0, without gaps: number them anew",
        )
    if test_data is None:
        return found
    if found.test is not None:
        raise ArgumentError(
            f"{found.origin} brings its own test pictures, and {shown(test_data)} was given", hint="leave that out"
        )
    tested = _of_path(test_data)
    half = Half(_renumbered(tested, found.names), tested.train.pictures)
    return Source(found.origin, found.names, found.train, half, [found.stamp, tested.stamp])


def _of_path(data: str | os.PathLike[str]) -> Source:
    if not isinstance(data, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] -- users pass anything
        raise ArgumentError(f"{type(data).__name__} is no data", hint="pass a path, or (pictures, labels)")
    if data == DIGITS:
        digits = _half(load_digits(), DIGITS)
        return Source(DIGITS, _numbers(digits.labels), digits, None, DIGITS)
    path = Path(data)
    if kind_of(path) is None:
        raise FileError(f"{shown(data)} does not exist", hint=f"name a folder, a database, a .npz file, or {DIGITS!r}")
    if path.suffix == ".npz":
        return _of_npz(path)
    if kind_of(path) == "folder" and any(find_idx(path, "train", kind) for kind in IDX_KINDS):
        train, test = (_half(load_idx(path, split), shown(path)) for split in ("train", "test"))
        return Source(shown(path), _numbers(train.labels, test.labels), train, test, _stamp(path, _files(path)))
    db_type = database_type(path)
    return _of_folder(path) if db_type is None else _of_database(db_type, path)


# -- folders of pictures -----------------------------------------------------------------------------------------------


def is_picture_folder(path: Path) -> bool:
    """Whether a folder holds sub-folders with pictures, and neither a database nor IDX files."""
    if kind_of(path) != "folder" or database_type(path) is not None:
        return False
    if any(find_idx(path, split, kind) for split in ("train", "test") for kind in IDX_KINDS):
        return False
    return any(_has_pictures(path / name) for name in _folders(path))


def _of_folder(path: Path) -> Source:
    within = {name.lower(): path / name for name in _folders(path)}
    train = next((within[name] for name in TRAIN_FOLDERS if name in within and _is_split(within[name])), None)
    test = next((within[name] for name in TEST_FOLDERS if name in within), None)
    if train is None:
        train, test = path, None
    classes = _classes(train)
    tested = None
    if test is not None:
        there = _classes(test)
        strange = sorted(there.keys() - classes.keys())
        if strange:
            raise ArgumentError(
                f"{shown(test)} has the class {strange[0]!r}, which {shown(train)} has not",
                hint="a net learns the classes of the pictures that it is trained on",
            )
        tested = {name: there.get(name, []) for name in classes}
    files = [file for table in (classes, tested) if table is not None for each in table.values() for file in each]
    halves = [None if table is None else _half_of_files(table) for table in (classes, tested)]
    assert halves[0] is not None, "there are classes"
    return Source(shown(path), tuple(map(one_line, classes)), halves[0], halves[1], _stamp(path, files))


def _is_split(path: Path) -> bool:
    """Whether a folder called as one to learn from is that, and no class of this name beside other classes."""
    splits = (*TRAIN_FOLDERS, *TEST_FOLDERS)
    if any(_has_pictures(path / name) for name in _folders(path)):
        return True
    return not any(_has_pictures(path.parent / name) for name in _folders(path.parent) if name.lower() not in splits)


def _has_pictures(folder: Path) -> bool:
    return next(image_files(folder), None) is not None


def _folders(path: Path) -> list[str]:
    return [name for name in names_in(path) if not name.startswith(".") and kind_of(path / name) == "folder"]


def _classes(folder: Path) -> dict[str, list[Path]]:
    """Return the pictures of each sub-folder that has some.

    Raises:
        FileError: there are not two classes.
    """
    pictures = {name: list(image_files(folder / name)) for name in _folders(folder)}
    found = {name: [file for file in files if file.suffix != ".npy"] for name, files in pictures.items()}
    found = {name: files for name, files in found.items() if files}
    if len(found) < 2:
        without = [name for name in pictures if name not in found]
        told = f"; without pictures: {one_line(', '.join(without))}" if without else ""
        raise FileError(
            f"{shown(folder)} has pictures of {len(found)} classes, and two are the least: each has a sub-folder{told}",
            hint=f"cats/a.jpg, dogs/b.jpg ...; formats: {', '.join(FORMATS)}",
        )
    return found


def _half_of_files(classes: dict[str, list[Path]]) -> Half:
    files = [file for each in classes.values() for file in each]
    labels = np.repeat(np.arange(len(classes)), [len(each) for each in classes.values()])
    return Half(labels.astype(np.int64), lambda places: ((shown(files[at]), files[at]) for at in map(int, places)))


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in names_in(folder) if kind_of(folder / name) == "file"]


def _stamp(root: Path, files: Sequence[Path]) -> object:
    """Return what changes where a file does: a digest of names, sizes and times."""
    told = hashlib.sha256()
    for file in files:
        status = status_of(file)
        told.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return [str(resolved(root)), len(files), told.hexdigest()]


# -- arrays ------------------------------------------------------------------------------------------------------------


def _of_arrays(given: ArraysGiven) -> Source:
    parts = cast("list[Any]", list(given) if given and isinstance(given[0], tuple | list) else [given])
    if not 1 <= len(parts) <= 2 or any(not _is_pair(pair) for pair in parts):
        raise ArgumentError("arrays come as (pictures, labels), or as two of these", hint="the second is tested on")
    pairs = [tuple(map(_array, pair)) for pair in parts]
    halves = [_half_of_arrays(images, labels, "the arrays") for images, labels in pairs]
    told = hashlib.sha256()
    for pair in pairs:
        for array in pair:
            told.update(repr((array.shape, array.dtype)).encode() + np.ascontiguousarray(array).tobytes())
    names = _numbers(*(half.labels for half in halves))
    return Source("arrays", names, halves[0], halves[1] if len(halves) == 2 else None, told.hexdigest())


def _is_pair(given: object) -> bool:
    return isinstance(given, tuple | list) and len(cast("Sequence[object]", given)) == 2


def _array(values: object) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentError(f"{type(values).__name__} is no array: {one_line(error)}") from error


def _of_npz(path: Path) -> Source:
    with open_regular(path, "file of arrays") as file:
        try:
            _check_room(file, path)
            with np.load(file, allow_pickle=False) as arrays:
                found = {half: _named(arrays, names) for half, names in ARRAY_NAMES.items()}
        except TazzaError:
            raise
        except Exception as error:  # an archive is read by several parsers, which raise whatever comes up
            raise FormatError(
                f"{shown(path)} is no file of arrays: {one_line(error)}", hint="numpy.savez writes such files"
            ) from error
    if found["train"] is None:
        known = "; ".join(f"{image} and {label}" for image, label in ARRAY_NAMES["train"])
        raise FormatError(f"{shown(path)} has no arrays of pictures and labels", hint=f"they are called {known}")
    train = _half_of_arrays(*found["train"], shown(path))
    test = None if found["test"] is None else _half_of_arrays(*found["test"], shown(path))
    labels = [half.labels for half in (train, test) if half is not None]
    return Source(shown(path), _numbers(*labels), train, test, _stamp(path, [path]))


def _named(arrays: Any, names: Sequence[tuple[str, str]]) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the first pair of arrays that an archive has; None: it has none of these."""
    there = set(arrays)
    pairs = (pair for pair in names if there.issuperset(pair))
    return next(((_member(arrays, image), _member(arrays, label)) for image, label in pairs), None)


def _member(arrays: Any, name: str) -> NDArray[Any]:
    """Return an array of an archive; of a member that is no .npy file, NumPy gives the bytes.

    Raises:
        ValueError: it is none.
    """
    found = arrays[name]
    if not isinstance(found, np.ndarray):
        raise ValueError(f"its {name} is no array")
    return cast("NDArray[Any]", found)


def _check_room(file: BinaryIO, path: Path) -> None:
    """Refuse an archive that unpacks to more than there is memory for: a file of a megabyte may hold a gigabyte.

    Raises:
        OutOfMemoryError: it does.
    """
    with zipfile.ZipFile(file) as archive:
        wanted = sum(member.file_size for member in archive.infolist())
    free = available_bytes()
    if free is not None and wanted > free:
        raise OutOfMemoryError(f"{shown(path)} unpacks to {wanted} bytes, and {free} are free", hint="use a database")
    file.seek(0)


def _half_of_arrays(images: NDArray[Any], labels: NDArray[Any], what: str) -> Half:
    flat = labels.reshape(-1)
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ShapeError(
            f"{what}: pictures are {images.dtype} of shape {images.shape}, not bytes (N, H, W) or (N, H, W, C)",
            hint="pass uint8, 0 ... 255",
        )
    if images.ndim == 4 and images.shape[3] not in (1, 3):
        images = np.moveaxis(images, 1, -1)
    if images.ndim == 4 and images.shape[3] not in (1, 3):
        raise ShapeError(f"{what}: pictures of shape {images.shape} have no axis of 1 or 3 colours")
    if flat.dtype.kind not in "iu" or len(flat) != len(images) or 0 in images.shape:
        raise ShapeError(
            f"{what}: {flat.dtype} labels of shape {labels.shape} for pictures of shape {images.shape}",
            hint="one whole number for each picture, counted from 0",
        )
    return Half(
        _checked(flat, what), lambda places: ((f"picture {place} of {what}", images[place]) for place in places)
    )


def _half(images: LabelledImages, what: str) -> Half:
    return _half_of_arrays(images.images, images.labels, what)


def _checked(labels: NDArray[Any], what: str) -> NDArray[np.int64]:
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= LABEL_MAX:
        raise ShapeError(f"{what}: labels from {labels.min()} to {labels.max()}", hint="classes count from 0")
    return labels.astype(np.int64)


def _numbers(*labels: NDArray[np.int64]) -> tuple[str, ...]:
    """Return what classes are called that have numbers alone."""
    return tuple(map(str, range(1 + max(int(each.max(initial=0)) for each in labels))))


def _renumbered(source: Source, names: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the labels of a source by names that another has.

    Raises:
        ArgumentError: a class that the other has not.
    """
    strange = [name for name in source.names if name not in names]
    if strange:
        raise ArgumentError(
            f"{source.origin} has the class {strange[0]!r}, and there is none of that name to learn from",
            hint="sub-folders of both are called alike",
        )
    return np.array([names.index(name) for name in source.names])[source.train.labels]


# -- databases ---------------------------------------------------------------------------------------------------------


def _of_database(db_type: str, path: Path) -> Source:
    what = f"{db_type} {shown(path)}"
    labels = [_record_label(value, f"record {place} of {what}") for place, value in enumerate(_values(db_type, path))]
    if not labels:
        raise DBError(f"{what} has no records", hint="put records into it first")

    def pictures(places: Places) -> Iterator[tuple[str, Picture]]:
        wanted = np.zeros(len(labels), bool)
        wanted[places] = True
        records = enumerate(_values(db_type, path))
        for place, value in compress(records, wanted.tolist()):
            name = f"record {place} of {what}"
            yield name, record_picture(value, name)

    half = Half(_checked(np.array(labels), what), pictures)
    files = [path] if kind_of(path) == "file" else _files(path)
    return Source(what, _numbers(half.labels), half, None, _stamp(path, [file for file in files if file.suffix]))


def _values(db_type: str, path: Path) -> Iterator[bytes]:
    with open_db(db_type, path) as db, db.cursor() as cursor:
        for _, value in cursor:
            yield value


def _record_protos(value: bytes, what: str) -> Sequence[TensorProto]:
    protos = parse(TensorProtos, value, what).protos
    if len(protos) < 2:
        raise FormatError(f"{what} holds {len(protos)} tensors, and no picture with its label")
    return protos


def _record_label(value: bytes, what: str) -> int:
    label = tensor_proto_to_array(_record_protos(value, what)[1])
    if label.size != 1 or label.dtype.kind not in "iu":
        raise FormatError(f"{what}: its label is {label.dtype} of shape {label.shape}, not one whole number")
    return int(label.reshape(()))


def record_picture(value: bytes, what: str) -> Picture:
    """Return the picture of a record: pixels (H, W, C) of a tensor of bytes, or the bytes of a file.

    Raises:
        FormatError: it holds something else.
    """
    proto = _record_protos(value, what)[0]
    if proto.data_type == TensorProto.STRING and len(proto.string_data) == 1:
        return bytes(proto.string_data[0])
    try:
        pixels = tensor_proto_to_array(proto)
    except TazzaError as error:
        raise FormatError(f"{what}: {error.message}") from error
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise FormatError(f"{what}: its picture is {pixels.dtype} of shape {pixels.shape}, not bytes (C, H, W)")
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3):
        return np.moveaxis(pixels, 0, -1)
    return pixels
