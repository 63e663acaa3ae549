"""Files that people name: one way to open and look at them, and one way to write them.

Reading: `open_regular` and what stands on it open regular files only, and never wait for one. A path may be anything (a
pipe, a device, a folder, a link to itself, 5,000 letters with a NUL between them): what cannot be opened is a
`FileError` that says why, and what may not be as long as it is is a `FormatError` before any of it is read. `kind_of`
tells what lies at a path, with the same errors. No other module of the package opens a file that a person named.

Writing: a reader finds the old content or the new one, and never a part of either. The new content goes to a temporary
file beside the target, reaches the disk, and is then renamed over the target. Whatever happens before the rename leaves
the target as it was. A process that is killed can leave a temporary file behind, whose name starts with a dot and ends
in `.tmp`; nothing ever reads it.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

from tazza.errors import FileError, FormatError, TazzaError

T = TypeVar("T")
AnyPath = str | os.PathLike[str]
Kind = Literal["file", "folder", "pipe", "device", "socket"]

SHOWN_MAX = 200
"""Most letters of a path, or of what a library says of its content, in a message."""
TEXT_BYTES_MAX = 64 * 2**20
"""Longest text file that is read: tables and settings, which have some kilobytes."""

_KINDS: tuple[tuple[Callable[[int], bool], Kind], ...] = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISFIFO, "pipe"),
    (stat.S_ISSOCK, "socket"),
)


# -- reading -----------------------------------------------------------------------------------------------------------


def kind_of(path: AnyPath) -> Kind | None:
    """Return what lies at a path, links followed; None when there is nothing.

    Raises:
        FileError: the system does not take the path, or forbids to look there.

    >>> kind_of("/"), kind_of("/dev/null"), kind_of("/no/such/file")
    ('folder', 'device', None)
    """
    try:
        return _kind(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _read_error(path, error) from error


def status_of(path: AnyPath) -> os.stat_result:
    """Return what the system knows of a file that is there.

    Raises:
        FileError: it is not, or the system forbids to look.
    """
    return _asked(os.stat, path)


def resolved(path: AnyPath) -> Path:
    """Return the absolute path without links; parts that do not exist stay as they are.

    Raises:
        FileError: the system does not take the path.
    """
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise _read_error(path, error) from error


def names_in(folder: AnyPath) -> list[str]:
    """Return the sorted names of what lies in a folder.

    Raises:
        FileError: it is none, or cannot be listed.
    """
    return sorted(_asked(os.listdir, folder))


def open_regular(path: AnyPath, what: str = "file", *, bytes_max: int | None = None) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: what somebody named.
        what: noun for messages, such as "history of a training".
        bytes_max: longest such file.

    Raises:
        FileError: there is none, it is something else, or it cannot be opened.
        FormatError: it is longer than `bytes_max`.
    """
    descriptor = open_descriptor(path, os.O_RDONLY, what)
    file = os.fdopen(descriptor, "rb")
    size = os.fstat(descriptor).st_size
    if bytes_max is not None and size > bytes_max:
        file.close()
        raise FormatError(f"{shown(path)} is no {what}: {size} bytes, and such a file has at most {bytes_max}")
    return file


def open_descriptor(path: AnyPath, flags: int, what: str = "file") -> int:
    """Return a new descriptor of a regular file; what would be waited for, such as a pipe, is refused.

    Raises:
        FileError: as `open_regular`.
    """
    kind = kind_of(path)  # before it is opened: that alone does something to some devices
    if kind is None and not flags & os.O_CREAT:
        raise _read_error(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    _check_regular(path, what, kind)
    descriptor = _asked(os.open, path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    try:
        _check_regular(path, what, _kind(os.fstat(descriptor)))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_log(path: AnyPath, what: str = "log") -> int:
    """Return a descriptor of a new file, or one that is emptied, for lines that are written as they come.

    Raises:
        FileError: as `open_regular`.
    """
    return open_descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, what)


def read_bytes(path: AnyPath, what: str, bytes_max: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        FileError, FormatError: as `open_regular`; or reading fails.
    """
    with open_regular(path, what, bytes_max=bytes_max) as file, reading(path):
        return file.read(os.fstat(file.fileno()).st_size)


@contextmanager
def reading(path: AnyPath) -> Generator[None, None, None]:
    """Turn what the system says while a file is read in the block into a FileError."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TazzaError):
            raise
        raise _read_error(path, error) from error


def read_text(path: AnyPath, what: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Return the content of a regular file as text, with lines that end in LF.

    Raises:
        FileError, FormatError: as `read_bytes`; or it is not UTF-8.
    """
    data = read_bytes(path, what, bytes_max)
    try:
        return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read()
    except UnicodeDecodeError as error:
        raise FormatError(f"{shown(path)} is no {what}: {len(data)} bytes that are not UTF-8 ({error})") from error


def read_json(path: AnyPath, what: str, bytes_max: int = TEXT_BYTES_MAX) -> Any:
    """Return the value that a file of JSON holds; its numbers are finite.

    Raises:
        FileError, FormatError: as `read_text`; or it is no JSON, or nested too deeply.
    """
    import json

    text = read_text(path, what, bytes_max)
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{shown(path)} is no {what}: {one_line(error)}") from error


def shown(path: object) -> str:
    r"""Return a path for a message: quoted, on one line, and shortened in its middle.

    >>> shown("a\0b")
    "'a\\x00b'"
    """
    text = one_line(path)
    return f"'{text}'"


def one_line(said: object) -> str:
    r"""Return what an error of a library says for a message: printable, on one line, and shortened in its middle.

    >>> one_line("bad" + chr(10) + "cup")
    'bad\\ncup'
    """
    text = str(said)
    if len(text) > SHOWN_MAX:
        text = f"{text[: SHOWN_MAX // 2]}...{text[-SHOWN_MAX // 2 :]}"
    return text if text.isprintable() else repr(text)[1:-1]


def encodable(text: str) -> str:
    r"""Return text that UTF-8 takes: what of a file's name is no text comes with a backslash.

    >>> encodable("cup" + chr(0xDCFF))
    'cup\\udcff'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text} is too large")
    return value


def _kind(status: os.stat_result) -> Kind:
    for test, kind in _KINDS:
        if test(status.st_mode):
            return kind
    return "device"


def _check_regular(path: AnyPath, what: str, kind: Kind | None) -> None:
    if kind not in (None, "file"):
        raise FileError(f"cannot read {shown(path)}: it is no regular file but a {kind}", hint=f"name a {what}")


def _asked(ask: Callable[..., T], path: AnyPath, *more: object) -> T:
    """Return what the system says of a path; what it raises instead is a FileError."""
    try:
        return ask(path, *more)
    except (OSError, ValueError) as error:
        raise _read_error(path, error) from error


def _read_error(path: AnyPath, error: OSError | ValueError) -> FileError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror is not None else str(error)
    return FileError(f"cannot read {shown(path)}: {reason}", hint="check the path and its permissions")


# -- writing -----------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Generator[BinaryIO, None, None]:
    """Open a binary file that becomes `path` when the block ends, and vanishes when the block raises.

    A symbolic link is followed: the file that it points to is replaced. A file that is replaced keeps its permissions.

    Raises:
        FileError: the file cannot be created, written or renamed; the folder does not exist; there is a folder, a pipe
            or a device. Any plain `OSError` of the block counts as one of these. Other exceptions pass as they are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(f"{folder}/cup.txt") as file:
    ...         _ = file.write(b"espresso")
    ...     Path(folder, "cup.txt").read_bytes()
    b'espresso'
    """
    target = resolved(path)
    kind = kind_of(target)
    if kind not in (None, "file"):
        raise FileError(f"cannot write {shown(target)}: it is no regular file but a {kind}", hint="name another")
    temporary = temporary_beside(target)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if kind == "file":
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


def make_folder(path: AnyPath, *, mode: int = 0o777) -> None:
    """Make a folder, and those around it; one that is there is left alone. `mode` is less the process's mask.

    Raises:
        FileError: it cannot be made.
    """
    try:
        os.makedirs(path, mode, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"cannot make the folder {shown(path)}: {reason}", hint="name another folder") from error


def _write_error(target: Path, error: OSError) -> FileError:
    reason = error.strerror if error.strerror is not None else str(error)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return FileError(
            f"cannot write {shown(target)}: there is no folder {shown(target.parent)}", hint="create the folder first"
        )
    return FileError(
        f"cannot write {shown(target)}: {reason}",
        hint="check the permissions of its folder and the free space of the disk",
    )


def _sync_folder(folder: Path) -> None:
    """Let the rename itself reach the disk, where the system can do that for a folder."""
    with suppress(OSError):  # some network file systems refuse; the content is safe already
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
