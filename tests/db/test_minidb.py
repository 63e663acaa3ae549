"""minidb: the bytes of the format, appending that takes back what fails, and the lock of a writer."""

from __future__ import annotations

import gc
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

import tazza.db.minidb as minidb
from tazza.db import Mode, open_db
from tazza.errors import DBError
from tests.db.conftest import contents


def packed(key: bytes, value: bytes) -> bytes:
    """Return the bytes of a record."""
    return struct.pack("=ii", len(key), len(value)) + key + value


def put(source: Path, mode: Mode, *records: tuple[str, bytes]) -> None:
    """Write records in one transaction."""
    with open_db("minidb", source, mode) as db, db.transaction() as transaction:
        for key, value in records:
            transaction.put(key, value)


def test_bytes_of_the_format(tmp_path: Path) -> None:
    put(tmp_path / "db", Mode.NEW, ("b", b"12"), ("a", b""))
    put(tmp_path / "db", Mode.WRITE, ("b", b"345"))
    assert (tmp_path / "db").read_bytes() == packed(b"b", b"12") + packed(b"a", b"") + packed(b"b", b"345")


def test_new_replaces_at_the_first_commit_only(tmp_path: Path) -> None:
    put(tmp_path / "db", Mode.NEW, ("a", b"1"))
    with open_db("minidb", tmp_path / "db", Mode.NEW) as db:
        transaction = db.transaction()
        transaction.put("b", b"2")
        assert contents("minidb", tmp_path / "db") == [(b"a", b"1")]
        assert not db.cursor().valid
        transaction.commit()
        assert contents("minidb", tmp_path / "db") == [(b"b", b"2")]
        transaction.put("c", b"3")
        transaction.commit()
    assert contents("minidb", tmp_path / "db") == [(b"b", b"2"), (b"c", b"3")]
    assert os.listdir(tmp_path) == ["db"]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 70_000])
def test_keys_and_values_of_any_length(tmp_path: Path, size: int) -> None:
    records = [("k" * size, b"v" * (size + 3)), ("next", b"n")]
    put(tmp_path / "db", Mode.NEW, *records)
    assert contents("minidb", tmp_path / "db") == [(key.encode(), value) for key, value in records]


def test_many_records_wait_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minidb, "SPOOL_BYTES", 100)
    records = [(f"{index:03}", bytes([index]) * 31) for index in range(20)]
    put(tmp_path / "db", Mode.NEW, *records)
    assert contents("minidb", tmp_path / "db") == [(key.encode(), value) for key, value in records]


def test_too_long_for_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minidb, "LENGTH_MAX", 5)
    with pytest.raises(DBError, match="a value has 6 bytes, and may have 5 at most"):
        put(tmp_path / "db", Mode.NEW, ("a", b"123456"))
    assert not (tmp_path / "db").exists()


@pytest.mark.parametrize("mode", [Mode.NEW, Mode.WRITE])
def test_failed_commit_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode) -> None:
    source = tmp_path / "db"
    put(source, Mode.NEW, ("a", b"1"))

    def full_disk(records: IO[bytes], out: IO[bytes], length: int) -> None:
        out.write(records.read(5))
        out.flush()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full_disk)
    with pytest.raises(DBError, match="No space left on device"):
        put(source, mode, ("b", b"2"))
    monkeypatch.undo()
    assert contents("minidb", source) == [(b"a", b"1")]
    put(source, Mode.WRITE, ("c", b"3"))
    assert contents("minidb", source) == [(b"a", b"1"), (b"c", b"3")]


KILLED_WHILE_APPENDING = """
import os, shutil, sys
from tazza.db import Mode, open_db

def killed(records, out, length):
    out.write(records.read(15))
    out.flush()
    os._exit(9)

shutil.copyfileobj = killed
with open_db("minidb", sys.argv[1], Mode.WRITE) as db, db.transaction() as transaction:
    transaction.put("late", b"0123456789")
"""


@pytest.mark.slow
def test_killed_while_appending(tmp_path: Path) -> None:
    source = tmp_path / "db"
    put(source, Mode.NEW, ("a", b"1"), ("b", b"2"))
    whole = source.read_bytes()
    code = subprocess.run([sys.executable, "-c", KILLED_WHILE_APPENDING, str(source)], timeout=60).returncode
    assert code == 9
    with open_db("minidb", source) as db, db.cursor() as cursor:
        assert (cursor.key, cursor.value) == (b"a", b"1")
        cursor.next()
        assert (cursor.key, cursor.value) == (b"b", b"2")
        with pytest.raises(DBError, match=f"byte {len(whole)}, key length 4 and value length 10 need 22 bytes, 15 are"):
            cursor.next()
        assert not cursor.valid
    with pytest.raises(DBError, match=f"cut the file to {len(whole)} bytes"):
        open_db("minidb", source, Mode.WRITE)
    os.truncate(source, len(whole))
    put(source, Mode.WRITE, ("c", b"3"))
    assert [key for key, _ in contents("minidb", source)] == [b"a", b"b", b"c"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with open_db("minidb", tmp_path / "db", Mode.WRITE), pytest.raises(DBError, match="locked by another writer"):
        open_db("minidb", tmp_path / "db", Mode.WRITE)
    open_db("minidb", tmp_path / "db", Mode.WRITE).close()


def test_file_replaced_under_a_writer(tmp_path: Path) -> None:
    source = tmp_path / "db"
    with open_db("minidb", source, Mode.WRITE) as db:
        transaction = db.transaction()
        transaction.put("lost", b"1")
        put(source, Mode.NEW, ("a", b"1"))
        with pytest.raises(DBError, match="removed or replaced while it was open"):
            transaction.commit()
    assert contents("minidb", source) == [(b"a", b"1")]


def test_file_cut_under_a_reader(tmp_path: Path) -> None:
    put(tmp_path / "db", Mode.NEW, ("a", b"12345"))
    with open_db("minidb", tmp_path / "db") as db, db.cursor() as cursor:
        os.truncate(tmp_path / "db", 11)
        with pytest.raises(DBError, match="2 of the 5 bytes of a value"):
            _ = cursor.value


def test_a_reader_sees_what_is_appended(tmp_path: Path) -> None:
    put(tmp_path / "db", Mode.NEW, ("a", b"1"))
    with open_db("minidb", tmp_path / "db") as db, db.cursor() as cursor:
        put(tmp_path / "db", Mode.WRITE, ("b", b"2"))
        assert list(cursor) == [(b"a", b"1"), (b"b", b"2")]


def test_a_file_among_garbage_closes_without_a_word(tmp_path: Path) -> None:
    """Warnings are errors here, also those that nobody can raise."""
    path = tmp_path / "a"
    path.write_bytes(b"")
    file = minidb.OwnedFile(path)
    descriptor, ring = file.fileno(), list[object]()
    ring += [file, ring]
    del file, ring
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_nobody_is_told_to_cut_what_may_be_no_minidb(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(DBError, match="or is something else") as caught:
        contents("minidb", tmp_path / "cat.png")
    assert "cut the file" not in str(caught.value)
