"""The pages of an LMDB: what is damaged is found, whatever the length of the file, and no process ends by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tazza.db import Mode, environment, open_db
from tazza.errors import DBError
from tests.db.conftest import Fill, contents
from tests.db.damaged_lmdbs import make, read, run

FINE = {"refused", "right", "written"}


def check_results(count: int, seed: int) -> None:
    found = run(count, seed)
    assert {word for said in found for word in said.split()} == FINE, found
    assert found.total() == count


@pytest.mark.slow
def test_no_damage_ends_the_process_or_gives_other_records() -> None:
    check_results(40, 1)


@pytest.mark.slow
def test_no_damage_of_many_ends_the_process_or_gives_other_records() -> None:
    check_results(250, 2)


@pytest.mark.parametrize("nbytes", [300 * 2**20, 2**42])
def test_a_sparse_tail_is_no_work_and_hides_nothing(tmp_path: Path, nbytes: int) -> None:
    make(tmp_path / "db", commits=2)
    data, records = tmp_path / "db" / "data.mdb", read(tmp_path / "db")
    whole = data.read_bytes()
    os.truncate(data, nbytes)
    assert read(tmp_path / "db") == records
    with open_db("lmdb", tmp_path / "db", Mode.WRITE) as db, db.transaction() as transaction:
        transaction.put("zzz", b"")
    assert len(contents("lmdb", tmp_path / "db")) == len(records) + 1
    data.write_bytes(whole[: 2 * 4096] + bytes(len(whole) - 2 * 4096))
    os.truncate(data, nbytes)
    with pytest.raises(DBError, match="corrupt"):
        open_db("lmdb", tmp_path / "db")


def test_what_is_trusted_is_not_checked_before_it_is_written_to(tmp_path: Path, fill: Fill) -> None:
    fill("lmdb", tmp_path / "db", [f"{index}" for index in range(300)])
    data = tmp_path / "db" / "data.mdb"
    with data.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(bytes(4096))  # a page of the tree of free pages, or one that is free
    checked = environment.VERIFY_BYTES_MAX.override(0)
    with checked, environment.TRUST.override(True), open_db("lmdb", tmp_path / "db", Mode.WRITE):
        pass


def test_databases_with_names_are_checked_before_writing_and_read_as_the_library_does(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(tmp_path / "db"), max_dbs=2) as library:
        named = library.open_db(b"inner")
        with library.begin(write=True) as transaction:
            for index in range(500):
                transaction.put(f"{index:04}".encode(), b"v" * 30, db=named)
            transaction.put(b"plain", b"1")
        with library.begin() as transaction:
            expected = list(transaction.cursor())
    assert contents("lmdb", tmp_path / "db") == expected
    with open_db("lmdb", tmp_path / "db", Mode.WRITE):
        pass
    whole = (tmp_path / "db" / "data.mdb").read_bytes()
    broken = whole.replace(b"0300" + b"v" * 30, b"0001" + b"v" * 30)
    (tmp_path / "db" / "data.mdb").write_bytes(broken)
    with pytest.raises(DBError, match="not in the order"):
        open_db("lmdb", tmp_path / "db", Mode.WRITE)
    assert contents("lmdb", tmp_path / "db") == expected, "the records of the main tree are whole"


@pytest.mark.parametrize("flags", [0x02, 0x08, 0x04])
def test_other_orders_and_several_values(tmp_path: Path, fill: Fill, flags: int) -> None:
    """Keys of one letter are in the same order forwards, backwards, and as integers."""
    records = fill("lmdb", tmp_path / "db", "abcdef")
    data = bytearray((tmp_path / "db" / "data.mdb").read_bytes())
    for page in range(2):
        data[page * 4096 + 16 + 24 + 48 + 4] = flags
    (tmp_path / "db" / "data.mdb").write_bytes(data)
    if flags == 0x04:
        with pytest.raises(DBError, match="several values for a key"):
            open_db("lmdb", tmp_path / "db")
        return
    assert contents("lmdb", tmp_path / "db") == records
    with open_db("lmdb", tmp_path / "db") as db, db.cursor() as cursor:
        cursor.seek("c")
        assert [key for key, _ in cursor] == [b"c", b"d", b"e", b"f"]


@pytest.mark.slow
def test_seeking_finds_what_the_library_finds(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb")
    make(tmp_path / "db", commits=3)
    wanted = [key + tail for key, _ in read(tmp_path / "db") for tail in (b"", b"\0", b"\xff")] + [b"0", b"zz"]
    with lmdb.open(str(tmp_path / "db"), readonly=True, lock=False) as library, library.begin() as transaction:
        cursor = transaction.cursor()
        expected = [cursor.key() if cursor.set_range(key) else None for key in wanted]
    with open_db("lmdb", tmp_path / "db") as db, db.cursor() as ours:
        for key, found in zip(wanted, expected, strict=True):
            ours.seek(key)
            assert (ours.key if ours.valid else None) == found


CUT = """
import os, sys
from tazza.db import Mode, open_db
from tazza.errors import DBError

folder, nbytes, mode = sys.argv[1], int(sys.argv[2]), Mode[sys.argv[3]]
db = open_db("lmdb", folder, mode)
with db.cursor() as cursor:
    list(cursor)
os.truncate(os.path.join(folder, "data.mdb"), nbytes)
try:
    if mode is Mode.READ:
        with db.cursor() as cursor:
            list(cursor)
    else:
        with db.transaction() as transaction:
            transaction.put("k", b"v")
except DBError as error:
    print("refused" if "corrupt" in str(error) else error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["READ", "WRITE"])
def test_a_file_that_is_cut_while_it_is_open_ends_in_an_error(tmp_path: Path, mode: str) -> None:
    """The library has the file in its memory, and would end the process behind the file's end."""
    for nbytes in (0, 1, 4096, 8191, 8192, 3 * 4096, 5 * 4096 + 7):
        folder = tmp_path / f"{nbytes}"
        make(folder, commits=3)
        words = [sys.executable, "-c", CUT, str(folder), str(nbytes), mode]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout.strip()) == (0, "refused"), (nbytes, ended.stderr)
