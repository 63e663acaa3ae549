"""LMDB: shared environments, a map that grows under readers, and corrupt files that never reach the library."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tazza.db import Mode, environment, open_db
from tazza.errors import DBError, UnavailableError
from tests.db.conftest import SAMPLES, Fill, contents


def live() -> int:
    """Return the number of open environments."""
    return len(environment._ENVIRONMENTS)  # pyright: ignore[reportPrivateUsage] (what must not leak)


def test_one_folder_open_several_times(tmp_path: Path, fill: Fill) -> None:
    records = fill("lmdb", tmp_path / "db", ["a", "b"])
    (tmp_path / "link").symlink_to(tmp_path / "db")
    before = live()
    with open_db("lmdb", tmp_path / "db") as first, open_db("lmdb", tmp_path / "link") as second:
        assert live() == before + 1
        reading, other = first.cursor(), second.cursor()
        reading.next()
        assert (reading.key, other.key) == (b"b", b"a")
        first.close()
        assert list(other) == records
    assert live() == before


def test_writing_while_reading(tmp_path: Path, fill: Fill) -> None:
    fill("lmdb", tmp_path / "db", ["a", "c"])
    with open_db("lmdb", tmp_path / "db") as reader, reader.cursor() as cursor:
        fill("lmdb", tmp_path / "db", ["b", "d"])
        assert cursor.key == b"a"
        cursor.seek_to_first()
        assert [key for key, _ in cursor] == [b"a", b"b", b"c", b"d"]


def test_map_grows_under_a_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MAP_BYTES_FIRST", 2**16)
    keys = [f"{index:05}" for index in range(500)]
    with open_db("lmdb", tmp_path / "db", Mode.NEW) as db:
        with db.transaction() as transaction:
            for key in keys[::2]:
                transaction.put(key, key.encode() * 200)
        cursor = db.cursor()
        cursor.next()
        with db.transaction() as transaction:
            for key in keys[1::2]:
                transaction.put(key, key.encode() * 200)
        assert (cursor.key, cursor.value) == (b"00002", b"00002" * 200)
        cursor.next()
        assert cursor.key == b"00003", "the map grew, so that the cursor has a new snapshot"
    assert contents("lmdb", tmp_path / "db") == [(key.encode(), key.encode() * 200) for key in keys]


GROW = """
import sys
from tazza.db import Mode, open_db
with open_db("lmdb", sys.argv[1], Mode.WRITE) as db, db.transaction() as transaction:
    for index in range(300):
        transaction.put(f"{index:03}", bytes(4000))
"""


@pytest.mark.slow
def test_map_grown_by_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Fill) -> None:
    monkeypatch.setattr(environment, "MAP_BYTES_FIRST", 2**16)
    fill("lmdb", tmp_path / "db", ["a"])
    with open_db("lmdb", tmp_path / "db", Mode.WRITE) as db, db.cursor() as cursor:
        subprocess.run([sys.executable, "-c", GROW, str(tmp_path / "db")], check=True, timeout=60)
        cursor.seek_to_first()
        assert len(list(cursor)) == 301


def test_threads_share_an_environment(tmp_path: Path, fill: Fill) -> None:
    records = fill("lmdb", tmp_path / "db", [f"{index:03}" for index in range(200)])
    found: list[list[tuple[bytes, bytes]]] = []

    def read() -> None:
        found.append(contents("lmdb", tmp_path / "db"))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [records] * 4


def test_a_db_that_nobody_closed_is_given_back(tmp_path: Path, fill: Fill) -> None:
    fill("lmdb", tmp_path / "db", ["a"])
    before = live()
    db = open_db("lmdb", tmp_path / "db")
    assert live() == before + 1
    del db
    gc.collect()
    fill("lmdb", tmp_path / "other", ["a"])
    assert live() == before


@pytest.mark.parametrize("key", ["", "k" * 512])
def test_keys_that_do_not_fit(tmp_path: Path, key: str) -> None:
    with open_db("lmdb", tmp_path / "db", Mode.NEW) as db, db.transaction() as transaction:
        with pytest.raises(DBError, match=f"a key has {len(key)} bytes, and must have 1 to 511"):
            transaction.put(key, b"")
        transaction.put("k" * 511, b"")
    assert len(contents("lmdb", tmp_path / "db")) == 1


def damaged(make: Callable[[bytes], bytes], folder: Path) -> Path:
    """Make a folder with a damaged copy of the sample."""
    folder.mkdir()
    (folder / "data.mdb").write_bytes(make((SAMPLES / "mnist.lmdb" / "data.mdb").read_bytes()))
    return folder


def damages() -> dict[str, Callable[[bytes], bytes]]:
    """Return ways to damage a data file."""
    return {
        "half": lambda data: data[: len(data) // 2],
        "one byte short": lambda data: data[:-1],
        "second page cut": lambda data: data[:5000],
        "first page cut": lambda data: data[:100],
        "zeros": lambda data: data[:8192] + bytes(len(data) - 8192),
        "something else": lambda _: bytes(range(256)) * 64,
    }


@pytest.mark.parametrize("damage", damages())
@pytest.mark.parametrize("mode", [Mode.READ, Mode.WRITE])
def test_corrupt_file(tmp_path: Path, damage: str, mode: Mode) -> None:
    before = live()
    with pytest.raises(DBError, match=r"corrupt|cannot open"):
        open_db("lmdb", damaged(damages()[damage], tmp_path / "db"), mode)
    assert live() == before


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_never_end_the_process(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int, int]]
) -> None:
    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        for page, offset, value in changes:
            changed[(page * 4096 + offset) % len(data)] = value
        return bytes(changed)

    folder = damaged(change, tmp_path_factory.mktemp("changed") / "db")
    try:
        contents("lmdb", folder)
    except DBError:
        pass


def test_large_files_are_checked_for_their_length_only(tmp_path: Path) -> None:
    with environment.VERIFY_BYTES_MAX.override(0):
        folder = damaged(lambda data: data[:-4096], tmp_path / "cut")
        with pytest.raises(DBError, match="corrupt"):
            open_db("lmdb", folder)
        assert len(contents("lmdb", damaged(lambda data: data, tmp_path / "whole"))) == 20


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(UnavailableError, match=r"LMDB is not available: .*\n.*pip install 'lmdb>=3'"):
        open_db("lmdb", tmp_path / "db", Mode.NEW)
