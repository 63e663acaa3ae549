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
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakSet

from tazza.db.base import Mode
from tazza.db.lmdb_check import check_for_reading, check_for_writing
from tazza.db.lmdb_pages import DataFile, Snapshot
from tazza.db.place import (
    LMDB_DATA,
    check_empty_folder,
    check_folder,
    check_parent,
    check_writable,
    holds_something,
    kind_at,
    writable,
)
from tazza.errors import DBError, UnavailableError
from tazza.runtime.flags import flag
from tazza.runtime.fork import Guard, freed_in_child

if TYPE_CHECKING:
    import lmdb

Result = TypeVar("Result")

MAP_BYTES_FIRST = 64 * 2**20
"""Size of the map of a new environment; it doubles when it is full. Only pages in use take space on the disk."""

VERIFY_BYTES_MAX = flag(
    "lmdb_verify_bytes_max",
    256 * 2**20,
    "check LMDBs with up to this many bytes of pages as a whole before they are read; larger ones page by page",
    minimum=0,
)
TRUST = flag(
    "lmdb_trust",
    False,
    "write to LMDBs without the check of all their pages; a damaged one may then end the process",
)
LOCK = "lock.mdb"
RETRIES = 8
"""How often a snapshot is asked for anew, when other processes made two commits in the meantime."""


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
        self._db_type = db_type
        self._source = source
        self._writable = writable
        self._environment, self._data = self._open()

    def make_writable(self) -> None:
        """Open the files again for writing, if they are open for reading only."""
        with self.lock:
            if self._writable:
                return
            self._park()
            self._close_files()
            self._writable = True
            try:
                self._environment, self._data = self._open()
            except BaseException:
                self._writable = False
                self._environment, self._data = self._open()
                raise

    def begin(self) -> tuple[lmdb.Transaction[bytes], Snapshot]:
        """Start a read transaction, which keeps the pages of a snapshot as they are; the caller holds the lock."""
        for _ in range(RETRIES):
            self._data.check_length()  # the library would read behind the end of a file that was cut since
            transaction = self._adapting(lambda: self._environment.begin(buffers=False))
            snapshot = _snapshot(self._data, transaction)
            if snapshot is not None:
                return transaction, snapshot
            transaction.abort()
        raise DBError(f"{self.name} is written to faster than it can be read", hint="try again")

    def key_bytes_max(self) -> int:
        """Return the length of the longest key that fits."""
        return self._environment.max_key_size()

    def write(self, puts: Sequence[tuple[bytes, bytes]]) -> None:
        """Write all records in one transaction, in a map that is grown until they fit."""
        import lmdb

        def put_all() -> None:
            self._data.check_length()
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
            self._close_files()

    def _close_files(self) -> None:
        self._environment.close()
        self._data.close()

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

    def _open(self) -> tuple[lmdb.Environment, DataFile]:
        import lmdb

        data = str(Path(self._source, LMDB_DATA))
        is_there = kind_at(self._db_type, data) is not None
        if is_there:
            DataFile(data, self.name).close()  # the library believes what the metas say
        with Translated(self.name, "open"):
            if self._writable:
                environment = lmdb.open(self._source, map_size=MAP_BYTES_FIRST)
            else:
                # The lock file keeps pages that are read from being written anew. Where it cannot be made, we read
                # without: a folder that only others can write to should not be written to meanwhile.
                lock = os.path.join(self._source, LOCK)
                locked = writable(lock if kind_at(self._db_type, lock) is not None else self._source)
                environment = lmdb.open(self._source, readonly=True, create=False, lock=locked)
        pages: DataFile | None = None
        try:
            pages = DataFile(data, self.name)
            if is_there:
                self._verify(environment, pages)
        except BaseException:
            environment.close()
            if pages is not None:
                pages.close()
            raise
        return environment, pages

    def _verify(self, environment: lmdb.Environment, pages: DataFile) -> None:
        """Check all pages before they are written to, and those of smaller databases before they are read.

        A read transaction is open meanwhile, so that other writers leave the pages alone.
        """
        with Translated(self.name, "read"), environment.begin() as transaction:
            snapshot = _snapshot(pages, transaction)
            if snapshot is None:
                raise DBError(f"{self.name} was written to while it was opened", hint="open it again")
            used = (snapshot.meta.last_page + 1) * snapshot.meta.page_bytes
            if self._writable and not TRUST.value:
                check_for_writing(snapshot)
            elif used <= VERIFY_BYTES_MAX.value or pages.nbytes() < used:
                check_for_reading(snapshot)


def _snapshot(pages: DataFile, transaction: lmdb.Transaction[bytes]) -> Snapshot | None:
    """Return the pages that a transaction sees; None if their meta was overwritten, by two later commits."""
    meta = pages.meta_of(transaction.id())
    return None if meta is None else Snapshot(pages, meta)


_LOCK = freed_in_child(threading.Lock())
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
        importlib.import_module("lmdb")
    except ImportError as error:
        raise UnavailableError(f"LMDB is not available: {error}", hint="pip install 'lmdb>=3'") from error


def _check_folder(db_type: str, source: str, mode: Mode) -> None:
    kind = kind_at(db_type, source)
    if mode is Mode.NEW:
        check_empty_folder(db_type, source)
    elif mode is Mode.READ or kind not in (None, "folder") or (kind is not None and holds_something(db_type, source)):
        check_folder(db_type, source, LMDB_DATA)
        lock = kind_at(db_type, source, LOCK)
        if lock not in (None, "file"):  # the library would wait for a pipe
            raise DBError(f"{db_type} '{source}': '{LOCK}' is no file but a {lock}", hint="remove it")
    if mode is not Mode.READ and kind == "folder":
        check_writable(db_type, source, source)
    elif mode is not Mode.READ:
        check_parent(db_type, source)


def _identity(source: str) -> tuple[int, int] | None:
    try:
        status = Path(source, LMDB_DATA).stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
