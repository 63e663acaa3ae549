"""The type of database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tazza.db import Mode, open_db
from tazza.errors import DBError

LINES = [b"one", b"", b"three"]


def write(path: Path, lines: list[bytes], mode: Mode = Mode.NEW, first: int = 0) -> None:
    with open_db("lines", path, mode) as db, db.transaction() as transaction:
        for number, line in enumerate(lines, first):
            transaction.put(f"{number:08d}", line)


def read(path: Path) -> list[tuple[bytes, bytes]]:
    with open_db("lines", path) as db, db.cursor() as cursor:
        return list(cursor)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "text"
    write(path, LINES)
    assert path.read_bytes() == b"one\n\nthree\n"
    write(path, [b"four"], Mode.WRITE, first=3)
    assert read(path) == [(f"{n:08d}".encode(), line) for n, line in enumerate([*LINES, b"four"])]


def test_a_cursor_seeks_by_number(tmp_path: Path) -> None:
    write(tmp_path / "text", LINES)
    with open_db("lines", tmp_path / "text") as db, db.cursor() as cursor:
        cursor.seek("00000002")
        assert cursor.value == b"three"
        cursor.seek("1")
        assert not cursor.valid


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [("00000001", b"", "the next line has the key '00000000'"), ("00000000", b"a\nb", "it holds an end of line")],
)
def test_what_is_no_line_is_refused_and_nothing_written(tmp_path: Path, key: str, value: bytes, message: str) -> None:
    with open_db("lines", tmp_path / "text", Mode.NEW) as db:
        transaction = db.transaction()
        with pytest.raises(DBError, match=message):
            transaction.put(key, value)
    assert not (tmp_path / "text").exists()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DBError, match="does not exist"):
        open_db("lines", tmp_path / "text")
