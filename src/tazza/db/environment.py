"""LMDB environments of this process: one for each data file, however many DBs use it.

The library forbids to open a file twice in a process, and to grow or reopen its memory map while transactions read
from it. So DBs share an environment with a count of its users, and before its map changes every cursor parks: it ends
its read transaction and remembers its key, to start again there when it is used next.

State: `_ENVIRONMENTS` and the number of users of each change under `_LOCK`; the map and the living cursors of an
environment under its `lock`. A data file is known by device and inode, so that two paths to it meet, and a folder
that was made anew is another environment. `_ABANDONED` takes what DBs give back that nobody closed: the garbage
collector may run while a lock is held, so that it only leaves a note there.
"""

from __future__ import annotations

import importlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from weakref import WeakSet

from tazza.db.base import Mode
from tazza.db.place import LMDB_DATA, check_empty_folder, check_folder, check_parent, check_writable, writable
from tazza.errors import DBError, UnavailableError
from tazza.runtime.flags import flag
from tazza.runtime.fork import Guard, renewed

if TYPE_CHECKING:
    import lmdb

Result = TypeVar("Result")

MAP_BYTES_FIRST = 64 * 2**20
"""Size of the map of a new environment; it doubles when it is full. Only pages in use take space on the disk."""

VERIFY_BYTES_MAX = flag(
    "lmdb_verify_bytes_max",
    256 * 2**20,
    "check the structure of LMDB data files up to this many bytes before use (about 7 s per GiB of small records)",
    minimum=0,
)


class Translated:
    """A `with` block that turns errors of the library, and of the system, into DBErrors about the database `name`.

    It keeps no state of a block, so that one can serve many.
    """

    def __init__(self, name: str, act: str) -> None:
        self._what = f"{name}: cannot {act}"

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, DBError):
            self._raise(error)

    def _raise(self, error: BaseException) -> None:
        import lmdb

        message = f"{self._what}: {error}"
        if isinstance(error, lmdb.LockError):
            raise DBError(f"{message} (locked)", hint="close the other process that uses it") from error
        if isinstance(error, lmdb.InvalidError | lmdb.CorruptedError | lmdb.PageNotFoundError):
            raise DBError(f"{message} (corrupt)", hint="copy the file again from where it came") from error
        if isinstance(error, lmdb.Error | OSError):
            raise DBError(message) from error


class Parking(Protocol):
    """A reader that can end its transaction and start again later."""

    def park(self) -> None:
        """End the read transaction, if there is one."""
        ...


class Environment:
    """An open LMDB environment, its lock, and the readers that must park before its map changes."""

    def __init__(self, db_type: str, source: str, writable: bool) -> None:
        self.lock = Guard(f"{db_type} '{source}'")
        self.users = 0
        self.readers: WeakSet[Parking] = WeakSet()
        self.name = f"{db_type} '{source}'"
        self._source = source
        self._writable = writable
        self._environment = self._open()

    def make_writable(self) -> None:
        """Open the files again for writing, if they are open for reading only."""
        with self.lock:
            if self._writable:
                return
            self._park()
            self._environment.close()
            self._writable = True
            try:
                self._environment = self._open()
            except BaseException:
                self._writable = False
                self._environment = self._open()
                raise

    def begin(self) -> lmdb.Transaction[bytes]:
        """Start a read transaction; the caller holds the lock."""
        return self._adapting(lambda: self._environment.begin(buffers=False))

    def key_bytes_max(self) -> int:
        """Return the length of the longest key that fits."""
        return self._environment.max_key_size()

    def write(self, puts: Sequence[tuple[bytes, bytes]]) -> None:
        """Write all records in one transaction, in a map that is grown until they fit."""
        import lmdb

        def put_all() -> None:
            with self._environment.begin(write=True) as transaction:
                for key, value in puts:
                    transaction.put(key, value)

        with self.lock, Translated(self.name, "write"):
            while True:
                try:
                    return self._adapting(put_all)
                except lmdb.MapFullError:
                    self._park()
                    self._environment.set_mapsize(2 * self._environment.info()["map_size"])

    def close(self) -> None:
        """Close the files; readers that are alive have parked for good."""
        with self.lock:
            self._park()
            self._environment.close()

    def _adapting(self, act: Callable[[], Result]) -> Result:
        """Act, and once more if another process has grown the map in the meantime."""
        import lmdb

        try:
            return act()
        except lmdb.MapResizedError:
            self._park()
            self._environment.set_mapsize(0)
            return act()

    def _park(self) -> None:
        for reader in list(self.readers):
            reader.park()

    def _open(self) -> lmdb.Environment:
        import lmdb

        with Translated(self.name, "open"):
            if self._writable:
                environment = lmdb.open(self._source, map_size=MAP_BYTES_FIRST)
            else:
                # The lock file keeps pages that are read from being written anew. Where it cannot be made, we read
                # without: a folder that only others can write to should not be written to meanwhile.
                lock = Path(self._source, "lock.mdb")
                locked = writable(lock if lock.exists() else self._source)
                environment = lmdb.open(self._source, readonly=True, create=False, lock=locked)
        try:
            self._verify(environment)
        except BaseException:
            environment.close()
            raise
        return environment

    def _verify(self, environment: lmdb.Environment) -> None:
        """Check what the library would trust: on a page that is not what it should be it ends the process.

        A read transaction is open meanwhile, so that other writers leave the pages alone.
        """
        data = Path(self._source, LMDB_DATA)
        with Translated(self.name, "read"), environment.begin():
            pages, page_bytes = environment.info()["last_pgno"] + 1, environment.stat()["psize"]
            size = data.stat().st_size
            # The library need not write free pages at the end of the file, so that a short one is only suspicious.
            if VERIFY_BYTES_MAX.value < size and pages * page_bytes <= size:
                return
            problems = _problems(data)
        if problems:
            raise DBError(
                f"{self.name} is corrupt: {problems[0]} ({len(problems)} problems, {size} bytes for {pages} pages of"
                f" {page_bytes} bytes)",
                hint="copy the file again from where it came",
            )


_LOCK = renewed(threading.Lock())
_ENVIRONMENTS: dict[tuple[int, int], Environment] = {}
_ABANDONED: deque[Environment] = deque()


def acquire(db_type: str, source: str, mode: Mode) -> Environment:
    """Return the environment of a folder with one more user, opened if no one uses it.

    Raises:
        DBError: the folder is missing, corrupt, not writable, or not empty though it should be new.
        UnavailableError: py-lmdb is missing or too old.
    """
    _check_library()
    _check_folder(db_type, source, mode)
    while _ABANDONED:
        release(_ABANDONED.popleft())
    with _LOCK:
        identity = _identity(source)
        environment = None if identity is None else _ENVIRONMENTS.get(identity)
        if environment is None:
            environment = Environment(db_type, source, mode is not Mode.READ)
            identity = _identity(source)
            if identity is None:
                environment.close()
                raise DBError(f"{environment.name} was removed while it was opened")
            _ENVIRONMENTS[identity] = environment
        elif mode is not Mode.READ:
            environment.make_writable()
        environment.users += 1
        return environment


def abandon(environment: Environment) -> None:
    """Note that a use of an environment is over, to be given back later; safe in a finalizer."""
    _ABANDONED.append(environment)


def release(environment: Environment) -> None:
    """Give back one use of an environment; the last one closes it."""
    with _LOCK:
        environment.users -= 1
        if environment.users > 0:
            return
        for identity, other in list(_ENVIRONMENTS.items()):
            if other is environment:
                del _ENVIRONMENTS[identity]
        environment.close()


def _check_library() -> None:
    try:
        importlib.import_module("lmdb.verify")
    except ImportError as error:
        raise UnavailableError(
            f"LMDB is not available: {error}", hint="pip install 'lmdb>=3' (3.0 brought the check of data files)"
        ) from error


def _check_folder(db_type: str, source: str, mode: Mode) -> None:
    folder = Path(source)
    if mode is Mode.NEW:
        check_empty_folder(db_type, source)
    elif mode is Mode.READ or (folder.exists() and not folder.is_dir()) or (folder.is_dir() and any(folder.iterdir())):
        check_folder(db_type, source, LMDB_DATA)
    if mode is not Mode.READ and folder.is_dir():
        check_writable(db_type, source, source)
    elif mode is not Mode.READ:
        check_parent(db_type, source)


def _identity(source: str) -> tuple[int, int] | None:
    try:
        status = Path(source, LMDB_DATA).stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _problems(data: Path) -> list[str]:
    verifier = importlib.import_module("lmdb.verify")  # it has no types
    try:
        return cast(list[str], verifier.verify(str(data)))
    except verifier.VerifyError as error:
        return [str(error)]
