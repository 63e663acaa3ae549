"""One process at a time: a lock that ends with the process that holds it, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tazza.errors import FileError
from tazza.runtime.files import make_folder, open_descriptor, shown, status_of

LOCK = ".lock"
"""What a lock is called that lies in the folder that it guards."""


@contextmanager
def alone(path: Path, doing: str, hint: str) -> Generator[None]:
    """Let nobody else do the same while the block runs, in this process or another; a folder is made if need be.

    Args:
        path: a file that is there while the block runs.
        doing: for the message: "another process trains into 'out'".
        hint: what else can be done.

    Raises:
        FileError: somebody does; or there is no writing.
    """
    make_folder(path.parent)
    while True:
        descriptor = open_descriptor(path, os.O_RDWR | os.O_CREAT, "lock")
        try:
            _lock(descriptor, path, doing, hint)
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


def _lock(descriptor: int, path: Path, doing: str, hint: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FileError(f"another process {doing}", hint=hint) from error
    except OSError as error:
        raise FileError(f"{shown(path)} cannot be locked: {error.strerror}", hint="name another folder") from error


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), status_of(path))
    except FileError:  # it is gone; what else is wrong is told as it is opened anew
        return False
