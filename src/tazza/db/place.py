"""What lies where a database should be: checks before it is opened, and errors that say what was found instead."""

from __future__ import annotations

import os
from pathlib import Path

from tazza.errors import DBError, FileError
from tazza.runtime.files import Kind, kind_of, names_in, open_regular, shown
from tazza.runtime.near_names import did_you_mean

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
    kind = kind_of(source)
    if kind == "folder":
        return _describe_folder(Path(source))
    if kind != "file":
        return "neither a file nor a folder", None
    with open_regular(source, "database") as file:
        start = file.read(32)
    for beginning, what, hint in BEGINNINGS:
        if start.startswith(beginning):
            return what, hint
    if start.startswith(LMDB_FIRST_PAGE) and start[LMDB_MAGIC_OFFSET:].startswith(LMDB_MAGIC):
        return "the data file of an LMDB", "pass the folder that holds it, with db_type 'lmdb'"
    return "a file", None


def _describe_folder(path: Path) -> tuple[str, str | None]:
    if kind_of(path / LMDB_DATA) is not None:
        return "an LMDB folder", "open it with db_type 'lmdb'"
    if kind_of(path / "CURRENT") is not None:
        return "a LevelDB folder", "open it with db_type 'leveldb'"
    return "a folder", None


def check_file(db_type: str, source: str) -> None:
    """Check that a regular file is there.

    Raises:
        DBError: it is missing, something else, or not readable.
    """
    _check_exists(db_type, source)
    if kind_at(db_type, source) != "file":
        raise _other_kind(db_type, source, "a file")
    what, hint = _described(db_type, source)
    if what != "a file":
        raise DBError(f"{db_type} '{source}' looks like {what}", hint=hint)


def check_folder(db_type: str, source: str, holds: str) -> None:
    """Check that there is a folder that holds a file called `holds`.

    Raises:
        DBError: it is missing, or something else.
    """
    _check_exists(db_type, source)
    if kind_at(db_type, source, holds) != "file":
        raise _other_kind(db_type, source, f"a folder with '{holds}'")


def check_empty_folder(db_type: str, source: str) -> None:
    """Check that a new database can start in this folder, which may be missing.

    Raises:
        DBError: something is there already, or the folder around it is missing or not writable.
    """
    check_parent(db_type, source)
    kind = kind_at(db_type, source)
    if kind is None:
        return
    what, _ = _described(db_type, source)
    if kind != "folder" or holds_something(db_type, source):
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
    if kind_at(db_type, str(parent)) != "folder":
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


def kind_at(db_type: str, source: str, *below: str) -> Kind | None:
    """Return what lies at the place of a database, or below it.

    Raises:
        DBError: the system does not take the path, or forbids to look there.
    """
    try:
        return kind_of(os.path.join(source, *below))
    except FileError as error:
        raise _file_error(db_type, source, error) from error


def holds_something(db_type: str, folder: str) -> bool:
    """Return whether a folder holds anything.

    Raises:
        DBError: it cannot be listed.
    """
    try:
        return bool(names_in(folder))
    except FileError as error:
        raise _file_error(db_type, folder, error) from error


def check_plain_files(db_type: str, folder: str) -> None:
    """Check that a folder, which a library is to open, holds files and folders alone: it would wait for a pipe.

    Raises:
        DBError: there is something else in it.
    """
    try:
        for name in names_in(folder):
            kind = kind_of(os.path.join(folder, name))
            if kind not in ("file", "folder", None):
                raise DBError(f"{db_type} {shown(folder)} holds the {kind} {shown(name)}", hint="remove it")
    except FileError as error:
        raise _file_error(db_type, folder, error) from error


def _described(db_type: str, source: str) -> tuple[str, str | None]:
    try:
        return describe(source)
    except FileError as error:
        raise _file_error(db_type, source, error) from error


def _file_error(db_type: str, source: str, error: FileError) -> DBError:
    return DBError(f"{db_type} {shown(source)}: {error.message}", hint=error.hint)


def _check_exists(db_type: str, source: str) -> None:
    path = Path(source)
    if kind_at(db_type, source) is not None:
        return
    if os.path.lexists(path):
        raise DBError(f"{db_type} {shown(source)} is a link to {shown(os.readlink(path))}, which does not exist")
    raise DBError(f"{db_type} {shown(source)} does not exist", hint=_near(path))


def _near(path: Path) -> str | None:
    parent = path.absolute().parent
    try:
        if kind_of(parent) != "folder":
            return f"there is no folder {shown(parent)} either"
        names = names_in(parent)[:NAMES_MAX]
    except FileError:  # a folder may be entered without being listed; then there is nothing to propose
        return None
    return did_you_mean(path.name, names, show=repr)


def _other_kind(db_type: str, source: str, expected: str) -> DBError:
    what, hint = _described(db_type, source)
    return DBError(f"{db_type} '{source}' should be {expected}, and looks like {what}", hint=hint)
