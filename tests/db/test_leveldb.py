"""LevelDB: what is its own; the laws of all databases are in test_base.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tazza.db import Mode, open_db
from tazza.errors import DBError, UnavailableError
from tests.db.conftest import Fill, unavailable


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plyvel", None)
    with pytest.raises(UnavailableError, match=r"LevelDB is not available: .*\n.*pip install 'tazza\[leveldb\]'"):
        open_db("leveldb", tmp_path / "db", Mode.NEW)


class TestWithTheLibrary:
    """Only where plyvel is installed."""

    @pytest.fixture(autouse=True)
    def library(self) -> None:
        """Skip, with the reason, when it is not."""
        reason = unavailable("leveldb")
        if reason is not None:
            pytest.skip(reason)

    def test_locked(self, tmp_path: Path, fill: Fill) -> None:
        fill("leveldb", tmp_path / "db", ["a"])
        with open_db("leveldb", tmp_path / "db"), pytest.raises(DBError, match=r"lock(.|\n)*close the other user"):
            open_db("leveldb", tmp_path / "db")

    def test_corrupt(self, tmp_path: Path, fill: Fill) -> None:
        fill("leveldb", tmp_path / "db", ["a"])
        (tmp_path / "db" / "CURRENT").write_bytes(b"nothing")
        with pytest.raises(DBError, match="cannot open"):
            open_db("leveldb", tmp_path / "db")

    def test_new_over_an_old_one(self, tmp_path: Path, fill: Fill) -> None:
        fill("leveldb", tmp_path / "db", ["a"])
        with pytest.raises(DBError, match="there is a LevelDB folder already"):
            open_db("leveldb", tmp_path / "db", Mode.NEW)
