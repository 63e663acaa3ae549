"""What every database is: ordered records of a key and a value, read by cursors and written by transactions.

    with open_db("minidb", "digits.minidb", Mode.NEW) as db, db.transaction() as transaction:
        transaction.put("00000000", record)

Keys and values are bytes; a key given as text is stored as UTF-8. The format decides the order of the records and what
happens to equal keys: minidb and protodb keep records as they were put (protodb refuses a key that is taken), LMDB and
LevelDB sort them by key and keep the last value.

Constant state: source and mode of a DB. Changing state: `DB._open`, which never becomes True again, the position of a
cursor, the puts of a transaction that wait for their commit. Cursors and transactions hold their DB and fail once it is
closed. Each of the three belongs to one thread at a time; different cursors of one DB can be used by different threads.
"""

from __future__ import annotations

import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum
from importlib.util import find_spec
from types import TracebackType
from typing import Self, TypeVar, final

from tazza.errors import DBError, NotFoundError
from tazza.registry import Registry
from tazza.runtime.closing import Closing
from tazza.runtime.files import shown
from tazza.runtime.modules import watch


class Mode(Enum):
    """What a database is opened for."""

    READ = "read"
    """It must exist, and is never changed."""
    WRITE = "write"
    """Records are added to what is there; it is created when missing."""
    NEW = "new"
    """It starts empty. A single file is replaced by the first commit; a folder that holds a database is an error."""


class Cursor(Closing):
    """A position among the records of a DB; a new one stands at the first record.

    A format implements the private moves, each of which returns the key of the record reached, or None beyond the last;
    `_value`, which reads the value there; and `_release`, which gives back what the format holds for the cursor.
    """

    supports_seek = False
    """Whether `seek` works; a format without an index has no other way than reading on."""

    def __init__(self, db: DB) -> None:
        db.check_open()
        self.db = db
        self._key: bytes | None = None
        self._closed = False
        self.seek_to_first()

    @abstractmethod
    def _first(self) -> bytes | None: ...

    @abstractmethod
    def _after(self, key: bytes) -> bytes | None: ...

    @abstractmethod
    def _value(self) -> bytes: ...

    def _at(self, key: bytes) -> bytes | None:
        raise DBError(
            f"{self.db} has no index, so that a cursor cannot seek {key!r}",
            hint="copy the records into an LMDB, or read on with next",
        )

    @abstractmethod
    def _release(self) -> None: ...

    @final
    @property
    def valid(self) -> bool:
        """Whether the cursor stands on a record; False beyond the last one, in an empty DB, and after a failed move."""
        return self._key is not None

    @final
    @property
    def key(self) -> bytes:
        """Key of the current record.

        Raises:
            DBError: there is no current record, or the DB is closed.
        """
        return self._current()

    @final
    @property
    def value(self) -> bytes:
        """Value of the current record; a cursor reads it only when it is asked for.

        Raises:
            DBError: there is no current record, the DB is closed, or its bytes are corrupt.
        """
        self._current()
        return self._value()

    @final
    def seek_to_first(self) -> None:
        """Go to the first record, with all that was committed by now in view.

        Raises:
            DBError: the DB is closed, or the first record is corrupt.
        """
        self._check_open()
        self._key = None
        self._key = self._first()

    @final
    def seek(self, key: bytes | str) -> None:
        """Go to the first record whose key is `key` or sorts after it; without any, the cursor becomes invalid.

        Raises:
            DBError: the format has no index (`supports_seek`), the DB is closed or corrupt.
        """
        self._check_open()
        wanted = as_key(key)
        self._key = None
        self._key = self._at(wanted)

    @final
    def next(self) -> None:
        """Go to the next record; beyond the last one the cursor becomes invalid.

        Raises:
            DBError: the cursor is beyond the last record already, the next record is corrupt, or the DB is closed.
        """
        key = self._current()
        self._key = None
        self._key = self._after(key)

    @final
    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield key and value of each record from the current one to the last."""
        while self.valid:
            yield self.key, self.value
            self.next()

    @final
    def close(self) -> None:
        """Give back what the cursor holds; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            self._key = None
            self._release()

    def _check_open(self) -> None:
        self.db.check_open()
        if self._closed:
            raise DBError(f"a cursor of {self.db} is used after its close")

    def _current(self) -> bytes:
        self._check_open()
        if self._key is None:
            raise DBError(
                f"a cursor of {self.db} stands on no record: it is beyond the last one, or its last move failed",
                hint="ask `valid` first, or go back with seek_to_first",
            )
        return self._key


class Transaction(ABC):
    """Puts that become visible together, by `commit` or at the end of a `with` block that does not raise.

    After a commit the transaction can be used again. What was never committed is not written, with a `ResourceWarning`.
    """

    def __init__(self, db: DB) -> None:
        self._db = db
        self._pending = 0
        db.check_open()
        if db.mode is Mode.READ:
            raise DBError(f"{db} is open for reading only", hint="open it with Mode.WRITE or Mode.NEW")

    @abstractmethod
    def _put(self, key: bytes, value: bytes) -> None: ...

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _discard(self) -> None: ...

    @final
    @property
    def pending(self) -> int:
        """Number of puts since the last commit."""
        return self._pending

    @final
    def put(self, key: bytes | str, value: bytes) -> None:
        """Add a record to what the next commit writes.

        Raises:
            DBError: the format does not take this key or value, or the DB is closed.
        """
        self._db.check_open()
        self._put(as_key(key), value)
        self._pending += 1

    @final
    def commit(self) -> None:
        """Write all puts so that they outlive the process; either all of them or none.

        Raises:
            DBError: writing failed, and the DB is as it was after the commit before; or the DB is closed.
        """
        self._db.check_open()
        try:
            self._commit()
        finally:
            self.discard()

    @final
    def discard(self) -> None:
        """Forget the puts since the last commit."""
        self._pending = 0
        self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def __del__(self) -> None:
        pending = getattr(self, "_pending", 0)
        if pending > 0:
            if not sys.is_finalizing():  # a lock of the database may never be free then
                self.discard()
            warnings.warn(
                f"records that were put into {self._db} but never committed: {pending}", ResourceWarning, stacklevel=2
            )


class PendingPuts(Transaction):
    """A transaction that keeps its puts in memory until the commit."""

    def __init__(self, db: DB) -> None:
        super().__init__(db)
        self._puts: list[tuple[bytes, bytes]] = []

    def _put(self, key: bytes, value: bytes) -> None:
        self._puts.append((key, value))

    def _discard(self) -> None:
        self._puts = []


class DB(Closing):
    """A database at one place of the file system, open in one mode until `close`."""

    def __init__(self, db_type: str, source: str, mode: Mode) -> None:
        self.db_type = db_type
        self.source = source
        self.mode = mode
        self._open = True

    @abstractmethod
    def cursor(self) -> Cursor:
        """Return a new cursor at the first record.

        Raises:
            DBError: the DB is closed, or its first record is corrupt.
        """

    @abstractmethod
    def transaction(self) -> Transaction:
        """Return a new transaction.

        Raises:
            DBError: the DB is closed, or open for reading only.
        """

    @abstractmethod
    def _close(self) -> None: ...

    @final
    def close(self) -> None:
        """Close the DB and with it all its cursors and transactions; closing twice is allowed."""
        if self._open:
            self._open = False
            self._close()

    @final
    def check_open(self) -> None:
        """Do nothing while the DB is open.

        Raises:
            DBError: it is closed.
        """
        if not self._open:
            raise DBError(f"{self} is used after its close")

    def __str__(self) -> str:
        return f"{self.db_type} '{self.source}'"


DBS: Registry[str, Callable[[str, str, Mode], DB]] = Registry("DB type")
"""What opens a database of each type: a callable of the type's name, the source and the mode."""
watch(DBS)

DBClass = TypeVar("DBClass", bound=Callable[[str, str, Mode], DB])


_LIBRARIES: dict[str, str] = {}
"""The module that a type needs and that may not be installed."""


def db(*names: str, help: str, needs: str | None = None) -> Callable[[DBClass], DBClass]:
    """Return a decorator that registers a class, or a function that makes DBs, under each of the names.

    `needs` is the module without which none can be opened.
    """

    def decorate(maker: DBClass) -> DBClass:
        for name in names:
            DBS.register(name, maker, help=help)
            if needs is not None:
                _LIBRARIES[name] = needs
        return maker

    return decorate


def available_types() -> list[str]:
    """Return the types of databases whose libraries are installed.

    >>> {"minidb", "protodb", "lmdb"} <= set(available_types()) <= set(DBS)
    True
    """
    return [name for name in DBS if name not in _LIBRARIES or find_spec(_LIBRARIES[name]) is not None]


def open_db(db_type: str, source: str | os.PathLike[str], mode: Mode = Mode.READ) -> DB:
    """Open a database of a registered type.

    Raises:
        DBError: the type is unknown; the source is missing, something else, corrupt, locked, or cannot be written.
        UnavailableError: the library of this type is not installed.

    >>> open_db("minibd", "digits")
    Traceback (most recent call last):
    tazza.errors.DBError: unknown DB type 'minibd'
      hint: did you mean minidb?
    """
    try:
        maker = DBS[db_type]
    except NotFoundError as error:
        raise DBError(error.message, hint=error.hint) from error
    path = os.fspath(source)
    if path == "" or "\0" in path:
        raise DBError(f"{db_type} {shown(path)}: this is no path", hint="pass the path of a file or folder")
    return maker(db_type, path, mode)


def as_key(key: bytes | str) -> bytes:
    """Return the stored form of a key: text as UTF-8."""
    return key.encode() if isinstance(key, str) else key
