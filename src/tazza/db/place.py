"""What lies where a database should be: checks before it is opened, and errors that say what was found instead."""

from __future__ import annotations

import difflib
import os
from itertools import islice
from pathlib import Path

from tazza.errors import DBError

BEGINNINGS = (
    (b"PK\x03\x04", "a zip archive", "extract it first"),
    (b"\x1f\x8b\x08", "a gzip file", "extract it first"),
    (b"\x89HDF", "an HDF5 file", "convert it first"),
    (b"SQLite format 3\0", "an SQLite database", "convert it first"),
)
"""First bytes, what they belong to, and what to do."""

LMDB_DATA = "data.mdb"
LMDB_FIRST_PAGE = bytes(8)
LMDB_MAGIC = (0xBEEFC0DE).to_bytes(4, "little")
LMDB_MAGIC_OFFSET = 16

NAMES_MAX = 1000
"""How many names of a folder are looked through for one that is near."""


def describe(source: str) -> tuple[str, str | None]:
    """Say what a path looks like, and which hint helps who took it for something else."""
    path = Path(source)
    if path.is_dir():
        return _describe_folder(path)
    if not path.is_file():
        return "neither a file nor a folder", None
    with path.open("rb") as file:
        start = file.read(32)
    for beginning, what, hint in BEGINNINGS:
        if start.startswith(beginning):
            return what, hint
    if start.startswith(LMDB_FIRST_PAGE) and start[LMDB_MAGIC_OFFSET:].startswith(LMDB_MAGIC):
        return "the data file of an LMDB", "pass the folder that holds it, with db_type 'lmdb'"
    return "a file", None


def _describe_folder(path: Path) -> tuple[str, str | None]:
    if (path / LMDB_DATA).exists():
        return "an LMDB folder", "open it with db_type 'lmdb'"
    if (path / "CURRENT").exists():
        return "a LevelDB folder", "open it with db_type 'leveldb'"
    return "a folder", None


def check_file(db_type: str, source: str) -> None:
    """Check that a regular file is there.

    Raises:
        DBError: it is missing, something else, or not readable.
    """
    _check_exists(db_type, source)
    if not Path(source).is_file():
        raise _other_kind(db_type, source, "a file")
    try:
        what, hint = describe(source)
    except OSError as error:
        raise os_error(db_type, source, "read", error) from error
    if what != "a file":
        raise DBError(f"{db_type} '{source}' looks like {what}", hint=hint)


def check_folder(db_type: str, source: str, holds: str) -> None:
    """Check that there is a folder that holds a file called `holds`.

    Raises:
        DBError: it is missing, or something else.
    """
    _check_exists(db_type, source)
    if not (Path(source) / holds).is_file():
        raise _other_kind(db_type, source, f"a folder with '{holds}'")


def check_empty_folder(db_type: str, source: str) -> None:
    """Check that a new database can start in this folder, which may be missing.

    Raises:
        DBError: something is there already, or the folder around it is missing or not writable.
    """
    check_parent(db_type, source)
    path = Path(source)
    if not path.exists():
        return
    what, _ = describe(source)
    if not path.is_dir() or any(path.iterdir()):
        raise DBError(
            f"{db_type} '{source}' is to be new, but there is {what} already",
            hint="remove it, or add to it with Mode.WRITE",
        )


def check_parent(db_type: str, source: str) -> None:
    """Check that something can be created at `source`.

    Raises:
        DBError: the folder around it is missing or not writable.
    """
    parent = Path(source).absolute().parent
    if not parent.is_dir():
        raise DBError(f"{db_type} '{source}': there is no folder '{parent}'", hint="create the folder first")
    check_writable(db_type, source, str(parent))


def check_writable(db_type: str, source: str, path: str) -> None:
    """Check that this process may write to `path`, a file or folder of the database `source`.

    Raises:
        DBError: it may not.
    """
    if not writable(path):
        raise DBError(
            f"{db_type} '{source}': '{path}' is not writable", hint="check the permissions, or open it with Mode.READ"
        )


def writable(path: str | Path) -> bool:
    """Return whether this process, as the user that it acts for, may write to `path`."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def os_error(db_type: str, source: str, act: str, error: OSError) -> DBError:
    """Return the DBError of a system call that failed while doing `act` (an infinitive)."""
    reason = error.strerror if error.strerror is not None else str(error)
    return DBError(f"{db_type} '{source}': cannot {act}: {reason}")


def _check_exists(db_type: str, source: str) -> None:
    path = Path(source)
    if os.path.lexists(path) and path.exists():
        return
    if os.path.lexists(path):
        raise DBError(f"{db_type} '{source}' is a link to '{path.readlink()}', which does not exist")
    raise DBError(f"{db_type} '{source}' does not exist", hint=_near(path))


def _near(path: Path) -> str | None:
    parent = path.absolute().parent
    if not parent.is_dir():
        return f"there is no folder '{parent}' either"
    try:
        names = [entry.name for entry in islice(parent.iterdir(), NAMES_MAX)]
    except OSError:  # a folder may be entered without being listed; then there is nothing to propose
        return None
    near = difflib.get_close_matches(path.name, names, n=3)
    return f"did you mean {' or '.join(repr(name) for name in near)}?" if near else None


def _other_kind(db_type: str, source: str, expected: str) -> DBError:
    what, hint = describe(source)
    return DBError(f"{db_type} '{source}' should be {expected}, and looks like {what}", hint=hint)
