"""Finding labelled images by what a user names, and making a training and a test database of them.

    found = prepare("digits", None, Path("out/data"), seed=1)
    found.train.db_type, found.train.count

A name is `digits` (those of scikit-learn), a folder with MNIST's IDX files, an LMDB or LevelDB folder, or a minidb.
Images that are not in a database yet, and those of a single database from which a share is held back, are written into
`train.lmdb` and `test.lmdb` of the given folder. A file beside them says what they were made from, and is written last:
with it, they are used again, and without it, they are made anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.base import open_db
from tazza.db.images import (
    DIGIT_FRAME,
    IDX_KINDS,
    LabelledImages,
    Progress,
    both_parts,
    count_records,
    find_idx,
    load_digits,
    load_idx,
    no_progress,
    write_image_records,
    write_records,
)
from tazza.db.place import LMDB_DATA
from tazza.errors import ArgumentError, DBError, FileError, FormatError
from tazza.proto import TensorProtos
from tazza.proto.message import parse
from tazza.runtime.alone import LOCK, alone
from tazza.runtime.files import kind_of, names_in, read_text, resolved, shown, status_of, write_bytes_atomically

DIGITS = "digits"
TEST_SHARE = 0.2
WRITTEN_TYPE = "lmdb"
MANIFEST = "made_from.json"
UNFINISHED = ".unfinished"
"""Folder of databases that are being written."""
LMDB_FILES = (LMDB_DATA, "lock.mdb")


@dataclass(frozen=True, slots=True)
class ImageDB:
    """A database of image records: its type, where it is, and how many records it has."""

    db_type: str
    path: Path
    count: int
    origin: str | None = None
    """What its records were taken from, as the user named it; None where he named the database."""

    def __str__(self) -> str:
        """Return what the user knows it by."""
        return f"{self.db_type} '{self.path}'" if self.origin is None else self.origin


@dataclass(frozen=True, slots=True)
class TrainAndTest:
    """Two databases: what to learn from, and what to be tested on."""

    train: ImageDB
    test: ImageDB


def database_type(path: Path) -> str | None:
    """Return the type of database that lies at a path, or None when there is none that can be told."""
    if kind_of(path) != "folder":
        return None if kind_of(path) is None else "minidb"
    if kind_of(path / LMDB_DATA) is not None:
        return "lmdb"
    return "leveldb" if kind_of(path / "CURRENT") is not None else None


def prepare(
    data: str,
    test_data: str | None,
    folder: Path,
    *,
    seed: int,
    going_on: bool = False,
    progress: Progress = no_progress,
) -> TrainAndTest:
    """Find, or make in `folder`, the databases to train and to test on.

    Args:
        data: `digits`, or the path of an IDX folder or a database.
        test_data: the path of a database to test on, where `data` is one too. Without it, a share of 0.2 of every
            label is held back from digits and databases; an IDX folder brings its own test images.
        folder: where databases are written; made when missing.
        seed: of the choice what is held back, and of the order.
        going_on: a training goes on, whose databases were made from the same.
        progress: is told of the records that are written.

    Raises:
        FileError, DBError, FormatError: `data` is missing, is nothing of the kind, or is broken.
        ArgumentError: `test_data` beside data that brings its own; `going_on` with other data than before.
    """
    making = _Making(folder, going_on, progress)
    if data == DIGITS:
        _refuse_test_data(data, test_data)
        return _written(
            making,
            {"data": DIGITS, "share": TEST_SHARE, "frame": DIGIT_FRAME, "seed": seed},
            lambda: _digits(seed),
            origin=DIGITS,
        )
    path = Path(data)
    if kind_of(path) is None:
        raise FileError(f"{shown(data)} does not exist", hint=f"name a folder, a database, or {DIGITS!r}")
    if kind_of(path) == "folder" and any(
        find_idx(path, split, kind) for split in ("train", "test") for kind in IDX_KINDS
    ):
        _refuse_test_data(data, test_data)
        made_from = {"data": str(resolved(path)), "stamp": _stamp(path)}
        return _written(making, made_from, lambda: _idx(path), origin=shown(data))
    train = _existing(path)
    if test_data is not None:
        return TrainAndTest(train, _existing(Path(test_data)))
    return _divided(train, making, seed)


def _refuse_test_data(data: str, test_data: str | None) -> None:
    if test_data is not None:
        raise ArgumentError(
            f"{data!r} brings its own test images, and {test_data!r} was given to test on",
            hint="leave the test data out, or pass two databases",
        )


def _idx(path: Path) -> tuple[LabelledImages, LabelledImages]:
    return load_idx(path, "train"), load_idx(path, "test")


def _digits(seed: int) -> tuple[LabelledImages, LabelledImages]:
    digits = load_digits()
    train, test = both_parts(digits.labels, TEST_SHARE, seed)
    return digits.take(train), digits.take(test)


def _stamp(folder: Path) -> dict[str, list[int]]:
    """Sizes and times of the IDX files: when one changes, what was made from it is stale."""
    found = (find_idx(folder, split, kind) for split in ("train", "test") for kind in IDX_KINDS)
    known = {path.name: status_of(path) for path in found if path is not None}
    return {name: [status.st_size, status.st_mtime_ns] for name, status in known.items()}


def _existing(path: Path) -> ImageDB:
    db_type = database_type(path)
    if db_type is None:
        what = "has neither IDX files nor a database" if kind_of(path) == "folder" else "does not exist"
        raise DBError(
            f"{shown(path)} {what}",
            hint="it should hold a sub-folder of pictures for each class, or train-images-idx3-ubyte and its three"
            " fellows, or be an LMDB folder or a minidb file",
        )
    count = count_records(db_type, path)
    if count == 0:
        raise DBError(f"{db_type} '{path}' has no records", hint="put records into it first")
    return ImageDB(db_type, path, count)


def first_image_dims(images: ImageDB) -> tuple[int, ...]:
    """Return the dims of the first tensor in the first record.

    Raises:
        FormatError: there is no record, or it holds no tensors.
    """
    first = next(_records(images), None)
    if first is None:
        raise FormatError(f"{images} has no records", hint="put records into it first")
    protos = parse(TensorProtos, first, f"the first record of {images}").protos
    if not protos:
        raise FormatError(f"the first record of {images} holds no tensor")
    return tuple(protos[0].dims)


# -- databases that are written here -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Making:
    """Where databases are made, whether a training goes on with them, and who is told of records."""

    folder: Path
    going_on: bool
    progress: Progress


def _written(
    making: _Making,
    made_from: Mapping[str, object],
    load: Callable[[], tuple[LabelledImages, LabelledImages]],
    *,
    origin: str,
) -> TrainAndTest:
    def write(train: Path, test: Path) -> None:
        train_images, test_images = load()
        total, progress = len(train_images) + len(test_images), making.progress
        write_image_records(WRITTEN_TYPE, train, train_images, lambda done, _: progress(done, total))
        write_image_records(WRITTEN_TYPE, test, test_images, lambda done, _: progress(len(train_images) + done, total))

    return databases_once(making.folder, made_from, write, origin, going_on=making.going_on)


def _divided(whole: ImageDB, making: _Making, seed: int) -> TrainAndTest:
    made_from = {"data": str(resolved(whole.path)), "records": whole.count, "share": TEST_SHARE, "seed": seed}

    def write(train: Path, test: Path) -> None:
        labels = _labels(whole)
        _, positions = both_parts(labels, TEST_SHARE, seed)
        is_test = np.zeros(whole.count, bool)
        is_test[positions] = True
        count = len(positions)
        write_records(WRITTEN_TYPE, train, _some(whole, ~is_test), whole.count - count, making.progress)
        write_records(WRITTEN_TYPE, test, _some(whole, is_test), count, making.progress)

    return databases_once(making.folder, made_from, write, str(whole), going_on=making.going_on)


def _labels(whole: ImageDB) -> NDArray[np.int64]:
    records = enumerate(_records(whole))
    return np.array([_label(record, f"record {position} of {whole}") for position, record in records], np.int64)


def _label(record: bytes, source: str) -> int:
    protos = parse(TensorProtos, record, source).protos
    if len(protos) != 2 or len(protos[1].int32_data) != 1:
        raise FormatError(
            f"{source} holds {len(protos)} tensors, and no image with one int32 label",
            hint="name a second database to test on; then the records can be anything that the net takes",
        )
    return protos[1].int32_data[0]


def _records(whole: ImageDB) -> Iterator[bytes]:
    with open_db(whole.db_type, whole.path) as db, db.cursor() as cursor:
        for _, value in cursor:
            yield value


def _some(whole: ImageDB, wanted: NDArray[np.bool_]) -> Iterator[bytes]:
    return compress(_records(whole), wanted.tolist())


def databases_once(
    folder: Path,
    made_from: Mapping[str, object],
    write: Callable[[Path, Path], None],
    origin: str,
    *,
    going_on: bool = False,
) -> TrainAndTest:
    """Let `write(train, test)` make both databases in a folder, unless they are there and were made from the same.

    They are written beside what is there, and take its place when both are whole.

    Args:
        folder: where; made when missing.
        made_from: what they follow from, for a file of JSON beside them.
        write: makes both, of the type `WRITTEN_TYPE`.
        origin: what messages call them.
        going_on: a training goes on with those that are there: no others may take their place.

    Raises:
        ArgumentError: `going_on`, and what is there was made from something else.
        FileError, DBError: they cannot be written, or another process does; whatever `write` raises.
    """
    manifest = folder / MANIFEST
    places = [folder / "train.lmdb", folder / "test.lmdb"]
    text = json.dumps(made_from, indent=1, sort_keys=True) + "\n"
    same = _says(manifest, text)
    if going_on and kind_of(manifest) is not None and not same:
        raise ArgumentError(
            f"{origin}: pictures, or how they are chosen and made ready, changed since the training began; what was"
            " learned from already would be tested on",
            hint="go on with the pictures and options of then; --overwrite begins anew",
        )
    if not (same and all(kind_of(path) == "folder" for path in places)):
        with alone(folder / LOCK, f"writes databases into {shown(folder)}", "wait for it, or name another folder"):
            _replace(folder, places, write)
            write_bytes_atomically(manifest, text.encode())
    return TrainAndTest(*(replace(_existing(path), origin=origin) for path in places))


def _replace(folder: Path, places: Sequence[Path], write: Callable[[Path, Path], None]) -> None:
    """Write both databases into a folder of their own, and move them to their places; no manifest is left."""
    made = folder / UNFINISHED
    new = [made / path.name for path in places]
    with _replacing(folder):
        _remove_unfinished(made)
        made.mkdir()
    try:
        write(*new)
        for path in new:
            _existing(path)
        with _replacing(folder):
            (folder / MANIFEST).unlink(missing_ok=True)
            for path, place in zip(new, places, strict=True):
                _remove_lmdb(place)
                path.rename(place)
    finally:
        with _replacing(folder):
            _remove_unfinished(made)


@contextmanager
def _replacing(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(
            f"cannot write into '{folder}': {error.strerror}", hint="check the permissions, or name another folder"
        ) from error


def _remove_unfinished(made: Path) -> None:
    """Remove what was not moved to its place, of this process or one that was killed."""
    if kind_of(made) is not None:
        for name in names_in(made):
            _remove_lmdb(made / name)
        made.rmdir()


def _says(manifest: Path, text: str) -> bool:
    try:
        return kind_of(manifest) == "file" and read_text(manifest, "manifest") == text
    except FormatError:
        return False


def _remove_lmdb(path: Path) -> None:
    """Remove a database that was written here; anything else in its folder makes this fail."""
    with suppress(FileNotFoundError):
        for name in LMDB_FILES:
            (path / name).unlink(missing_ok=True)
        os.rmdir(path)
