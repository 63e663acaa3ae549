"""Tables in the folder of compiled code: what is written is read, what is broken is told and is none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tazza.errors import FileError
from tazza.runtime.kept_table import KeptTable
from tazza.runtime.native_code import CACHE_DIR

TABLE = KeptTable("cups.json", "sizes of cups")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with CACHE_DIR.override(str(tmp_path / "kept")):
        yield tmp_path / "kept"


def test_what_is_written_is_read(folder: Path) -> None:
    assert TABLE.read() == {}
    TABLE.write({"espresso": [30, 1.5]})
    assert TABLE.path == folder / "cups.json"
    assert TABLE.read() == {"espresso": [30, 1.5]}


@pytest.mark.parametrize("text", ["{", "[1]", "3", "\0"])
def test_a_broken_table_is_told_and_is_none(text: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.mkdir()
    (folder / "cups.json").write_text(text)
    with caplog.at_level(logging.WARNING, "tazza"):
        assert TABLE.read() == {}
    assert "stored sizes of cups are not used" in caplog.text
    TABLE.write({"ristretto": 20})
    assert TABLE.read() == {"ristretto": 20}


def test_a_folder_that_is_none(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    with pytest.raises(FileError):
        TABLE.write({})


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tazza.runtime.kept_table.cache_folder", lambda: None)
    TABLE.write({"lungo": 60})
    assert (TABLE.path, TABLE.read()) == (None, {})
