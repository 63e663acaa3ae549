"""What a user may name as data, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tazza.db.image_source import ImageDB, prepare
from tazza.db.images import LabelledImages, write_image_records
from tazza.errors import ArgumentError, DBError, FileError, FormatError
from tests.db.conftest import contents, record
from tests.db.test_images import write_idx_folder


def write_db(db_type: str, path: Path, count: int) -> Path:
    """Write a database of small images with labels 0 to 4 in turn."""
    labels = (np.arange(count) % 5).astype(np.int32)
    write_image_records(db_type, path, LabelledImages(np.full((count, 2, 3), 9, np.uint8), labels))
    return path


def test_an_idx_folder_is_written_once(tmp_path: Path) -> None:
    folder, out = write_idx_folder(tmp_path / "mnist"), tmp_path / "out"
    told: list[int] = []
    found = prepare(str(folder), None, out, seed=1, progress=lambda done, _: told.append(done))
    assert (found.train.count, found.test.count) == (7, 3)
    assert told == [7, 10]
    again = prepare(str(folder), None, out, seed=1, progress=lambda done, _: told.append(done))
    assert again == found
    assert told == [7, 10]


def test_a_changed_source_or_a_half_written_copy_is_made_anew(tmp_path: Path) -> None:
    folder, out = write_idx_folder(tmp_path / "mnist"), tmp_path / "out"
    prepare(str(folder), None, out, seed=1)
    write_idx_folder(folder, train=8)
    assert prepare(str(folder), None, out, seed=1).train.count == 8
    (out / "made_from.json").unlink()
    assert prepare(str(folder), None, out, seed=1).train.count == 8


def test_two_databases_are_used_where_they_are(tmp_path: Path) -> None:
    train, test = write_db("lmdb", tmp_path / "a", 6), write_db("minidb", tmp_path / "b.minidb", 4)
    found = prepare(str(train), str(test), tmp_path / "out", seed=1)
    assert (found.train, found.test) == (ImageDB("lmdb", train, 6), ImageDB("minidb", test, 4))
    assert not (tmp_path / "out").exists()


def test_of_one_database_a_share_of_each_label_is_held_back(tmp_path: Path) -> None:
    whole = write_db("minidb", tmp_path / "all.minidb", 50)
    found = prepare(str(whole), None, tmp_path / "out", seed=1)
    assert (found.train.count, found.test.count) == (40, 10)
    train, test = ([value for _, value in contents("lmdb", part.path)] for part in (found.train, found.test))
    assert sorted(train + test) == sorted(value for _, value in contents("minidb", whole))
    assert sorted(test) == sorted(value for _, value in contents("minidb", whole)[:5] * 2)


def test_what_cannot_be_used(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(FileError, match=r"'nowhere' does not exist\n  hint: name a folder, a database, or 'digits'"):
        prepare("nowhere", None, out, seed=1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DBError, match="has neither IDX files nor a database"):
        prepare(str(tmp_path / "empty"), None, out, seed=1)
    with pytest.raises(ArgumentError, match="'digits' brings its own test images"):
        prepare("digits", "more", out, seed=1)
    with pytest.raises(ArgumentError, match="brings its own test images"):
        prepare(str(write_idx_folder(tmp_path / "mnist")), "more", out, seed=1)
    (tmp_path / "empty.minidb").touch()
    with pytest.raises(DBError, match="has no records"):
        prepare(str(tmp_path / "empty.minidb"), None, out, seed=1)
    (tmp_path / "text.minidb").write_text("no database at all")
    with pytest.raises(DBError, match=r"text\.minidb"):
        prepare(str(tmp_path / "text.minidb"), None, out, seed=1)


def test_records_that_are_no_labelled_images(tmp_path: Path) -> None:
    from tazza.db import Mode, open_db

    with open_db("minidb", tmp_path / "other.minidb", Mode.NEW) as db, db.transaction() as transaction:
        transaction.put("0", record("0", b"abc"))
    with pytest.raises(FormatError, match="record 0"):
        prepare(str(tmp_path / "other.minidb"), None, tmp_path / "out", seed=1)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="cannot make the folder"):
        prepare(str(write_idx_folder(tmp_path / "mnist")), None, tmp_path / "file" / "out", seed=1)
