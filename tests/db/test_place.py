"""Bad sources: each gives a DBError that names the cause, and a hint where there is something to do."""

from __future__ import annotations

import gzip
import os
import struct
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tazza.db import Mode, open_db
from tazza.errors import DBError
from tests.db.conftest import Fill, contents

Make = Callable[[Path], Path]


def write(name: str, data: bytes) -> Make:
    """Return what makes a file."""

    def make(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return make


def place(name: str) -> Make:
    """Return what makes nothing at a path."""
    return lambda folder: folder / name


def folder_with(*names: str) -> Make:
    """Return what makes a folder with empty files."""

    def make(folder: Path) -> Path:
        (folder / "db").mkdir()
        for name in names:
            (folder / "db" / name).touch()
        return folder / "db"

    return make


def missing_with_neighbour(folder: Path) -> Path:
    """Make a file whose name is near the one that is returned."""
    (folder / "digits.minidb").touch()
    return folder / "digit.minidb"


def dangling(folder: Path) -> Path:
    """Make a link to nowhere."""
    (folder / "link").symlink_to(folder / "nowhere")
    return folder / "link"


def pipe(folder: Path) -> Path:
    """Make a named pipe."""
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def zipped(folder: Path) -> Path:
    """Make a zip archive."""
    with zipfile.ZipFile(folder / "db.zip", "w") as file:
        file.writestr("db", b"content")
    return folder / "db.zip"


LMDB_META = bytes(10) + b"\x08" + bytes(5) + struct.pack("<II", 0xBEEFC0DE, 1)
RANDOM = bytes((i * i * 7 + i) % 256 for i in range(8192))
CASES: list[tuple[str, str, Mode, Make, str]] = [
    ("unknown type", "minibd", Mode.READ, place("db"), r"unknown DB type 'minibd'\n.*did you mean minidb"),
    ("missing", "minidb", Mode.READ, missing_with_neighbour, r"does not exist\n.*did you mean 'digits.minidb'"),
    ("missing protodb", "protodb", Mode.READ, place("db"), r"protodb '.*db' does not exist"),
    ("missing lmdb", "lmdb", Mode.READ, place("db"), r"lmdb '.*db' does not exist"),
    ("missing folder", "minidb", Mode.READ, place("x/db"), r"does not exist\n.*there is no folder '.*x' either"),
    ("new in a missing folder", "minidb", Mode.NEW, place("x/db"), r"there is no folder '.*x'"),
    ("write in a missing folder", "lmdb", Mode.WRITE, place("x/db"), r"there is no folder '.*x'"),
    ("no path", "minidb", Mode.READ, lambda _: Path("\0"), "this is no path"),
    ("dangling link", "minidb", Mode.READ, dangling, r"is a link to '.*nowhere', which does not exist"),
    ("folder", "minidb", Mode.READ, folder_with(), "should be a file, and looks like a folder"),
    ("folder to replace", "minidb", Mode.NEW, folder_with(), "should be a file, and looks like a folder"),
    ("folder to add to", "protodb", Mode.WRITE, folder_with(), "should be a file, and looks like a folder"),
    ("LMDB folder", "minidb", Mode.READ, folder_with("data.mdb"), r"looks like an LMDB folder\n.*db_type 'lmdb'"),
    ("LevelDB folder", "lmdb", Mode.READ, folder_with("CURRENT"), r"looks like a LevelDB folder\n.*'leveldb'"),
    ("empty folder", "lmdb", Mode.READ, folder_with(), "should be a folder with 'data.mdb', and looks like a folder"),
    ("LMDB data file", "minidb", Mode.READ, write("data.mdb", LMDB_META), "looks like the data file of an LMDB"),
    ("pipe", "minidb", Mode.READ, pipe, "looks like neither a file nor a folder"),
    ("zip", "minidb", Mode.READ, zipped, r"looks like a zip archive\n.*extract it first"),
    ("gzip", "protodb", Mode.READ, write("db", gzip.compress(b"db")), r"looks like a gzip file\n.*extract it first"),
    ("short lengths", "minidb", Mode.READ, write("db", bytes(5)), "record at byte 0, its lengths need 8 bytes, 5 are"),
    (
        "short value",
        "minidb",
        Mode.READ,
        write("db", struct.pack("=ii", 1, 3) + b"kabc" + struct.pack("=ii", 2, 9) + b"kkabcd"),
        r"record at byte 12, key length 2 and value length 9 need 19 bytes, 14 are left\n.*cut the file to 12 bytes",
    ),
    (
        "nothing after a short value",
        "minidb",
        Mode.WRITE,
        write("db", struct.pack("=ii", 1, 3) + b"kab"),
        "key length 1 and value length 3 need 12 bytes, 11 are left",
    ),
    (
        "negative length",
        "minidb",
        Mode.READ,
        write("db", struct.pack("=ii", 3, -1) + b"key"),
        "record at byte 0 has key length 3 and value length -1",
    ),
    ("text as protodb", "protodb", Mode.READ, write("db", b"protos { }"), "is corrupt"),
    ("truncated protodb", "protodb", Mode.READ, write("db", b"\x0a\x20\x08\x01"), "is corrupt"),
    (
        "file as lmdb",
        "lmdb",
        Mode.READ,
        write("db", b"abc"),
        "should be a folder with 'data.mdb', and looks like a file",
    ),
    ("file as lmdb to add to", "lmdb", Mode.WRITE, write("db", b"abc"), "looks like a file"),
    ("file as new lmdb", "lmdb", Mode.NEW, write("db", b"abc"), "is to be new, but there is a file already"),
    (
        "new over an lmdb",
        "lmdb",
        Mode.NEW,
        folder_with("data.mdb"),
        "is to be new, but there is an LMDB folder already",
    ),
    ("another folder as lmdb", "lmdb", Mode.WRITE, folder_with("readme"), "looks like a folder"),
    ("empty data file", "lmdb", Mode.READ, folder_with("data.mdb"), "lmdb '.*db'"),
]


def walk(db_type: str, source: Path, mode: Mode) -> None:
    """Open a database and read it to its end."""
    with open_db(db_type, source, mode) as database, database.cursor() as cursor:
        for _ in cursor:
            pass


@pytest.mark.parametrize(("db_type", "mode", "make", "text"), [pytest.param(*c[1:], id=c[0]) for c in CASES])
def test_bad_source(tmp_path: Path, db_type: str, mode: Mode, make: Make, text: str) -> None:
    source = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DBError) as caught:
        walk(db_type, source, mode)
    caught.match(text)
    assert sorted(path for path in tmp_path.rglob("*") if path.name != "lock.mdb") == before, "it left something behind"


def test_absurd_lengths_allocate_nothing(tmp_path: Path) -> None:
    source = tmp_path / "db"
    source.write_bytes(struct.pack("=ii", 2**31 - 1, 2**31 - 1) + b"key")
    tracemalloc.start()
    with pytest.raises(DBError, match="need 4294967302 bytes, 11 are left"):
        walk("minidb", source, Mode.READ)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 2**20


@contextmanager
def ordinary_user() -> Generator[None]:
    """Be somebody whom permissions bind, while the superuser runs the tests."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """Return a temporary folder that everybody may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_read_only_folder(db_type: str, public_folder: Path, fill: Fill) -> None:
    source = public_folder / "db"
    records = fill(db_type, source, ["a", "b"])
    paths = [source, *source.iterdir()] if source.is_dir() else [source]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    with ordinary_user():
        for mode, name in ((Mode.NEW, "new"), (Mode.WRITE, "other"), (Mode.WRITE, "db")):
            with pytest.raises(DBError, match=r"not writable|denied"):
                open_db(db_type, public_folder / name, mode)
        if db_type != "leveldb":  # which writes a log and a lock file also when it only reads
            assert contents(db_type, source) == records
    source.chmod(0o755)


def test_unreadable_file(public_folder: Path, fill: Fill) -> None:
    source = public_folder / "db"
    fill("minidb", source, ["a"])
    source.chmod(0o000)
    with ordinary_user(), pytest.raises(DBError, match="denied"):
        open_db("minidb", source)
