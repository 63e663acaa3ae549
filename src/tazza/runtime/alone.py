"""One process at a time in a folder: a lock that ends with the process that holds it, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tazza.errors import FileError
from tazza.runtime.files import make_folder, open_descriptor, shown, status_of

LOCK = ".lock"


@contextmanager
def alone(folder: Path, what: str, hint: str) -> Generator[None]:
    """Make a folder, and let nobody else work in it while the block runs, in this process or another.

    Args:
        folder: where; the file of the lock is there while the block runs.
        what: is done there, for the message: "another process trains into ...".
        hint: what else can be done.

    Raises:
        FileError: somebody does; or there is no writing.
    """
    make_folder(folder)
    path = folder / LOCK
    while True:
        descriptor = open_descriptor(path, os.O_RDWR | os.O_CREAT, "lock")
        try:
            _lock(descriptor, folder, what, hint)
            if not _is_at(descriptor, path):  # its holder removed it after it was opened here
                continue
            try:
                yield
            finally:
                with suppress(OSError):
                    path.unlink()
            return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, folder: Path, what: str, hint: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FileError(f"another process {what} {shown(folder)}", hint=hint) from error
    except OSError as error:
        raise FileError(f"{shown(folder)} cannot be locked: {error.strerror}", hint="name another folder") from error


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), status_of(path))
    except FileError:
        return False
