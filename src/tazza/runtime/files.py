"""Writing files so that a reader finds the old content or the new one, and never a part of either.

The new content goes to a temporary file beside the target, reaches the disk, and is then renamed over the target.
Whatever happens before the rename leaves the target as it was. A process that is killed can leave a temporary file
behind, whose name starts with a dot and ends in `.tmp`; nothing ever reads it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tazza.errors import FileError, TazzaError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Generator[BinaryIO, None, None]:
    """Open a binary file that becomes `path` when the block ends, and vanishes when the block raises.

    A symbolic link is followed: the file that it points to is replaced. A file that is replaced keeps its permissions.

    Raises:
        FileError: the file cannot be created, written or renamed; the folder does not exist. Any plain `OSError` of the
            block counts as one of these. Other exceptions pass as they are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(f"{folder}/cup.txt") as file:
    ...         _ = file.write(b"espresso")
    ...     Path(folder, "cup.txt").read_bytes()
    b'espresso'
    """
    target = Path(os.path.realpath(path))
    temporary = temporary_beside(target)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
        _sync_folder(target.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and not isinstance(error, TazzaError):
            raise _write_error(target, error) from error
        raise


def temporary_beside(target: Path) -> Path:
    """Return a path in the same folder that nothing has yet, for what will be renamed to `target`."""
    return target.with_name(f".{target.name}.{os.urandom(4).hex()}.tmp")


def write_bytes_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Make `data` the content of `path`.

    Raises:
        FileError: as `atomic_write`.
    """
    with atomic_write(path) as file:
        file.write(data)


def _write_error(target: Path, error: OSError) -> FileError:
    reason = error.strerror if error.strerror is not None else str(error)
    if not target.parent.is_dir():
        return FileError(
            f"cannot write '{target}': there is no folder '{target.parent}'", hint="create the folder first"
        )
    return FileError(
        f"cannot write '{target}': {reason}", hint="check the permissions of its folder and the free space of the disk"
    )


def _sync_folder(folder: Path) -> None:
    """Let the rename itself reach the disk, where the system can do that for a folder."""
    with suppress(OSError):  # some network file systems refuse; the content is safe already
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
