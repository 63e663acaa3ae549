"""LevelDB: a folder with sorted tables, one value for each key; cursors seek. Needs the extra package plyvel.

One process can open a folder, and once: the library holds a lock on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, cast

from tazza.db.base import DB, Cursor, Mode, PendingPuts, db
from tazza.db.place import check_empty_folder, check_folder, check_parent, check_plain_files, kind_at
from tazza.errors import DBError, UnavailableError


class _Iterator(Protocol):
    """What is used of plyvel's RawIterator."""

    def valid(self) -> bool: ...
    def key(self) -> bytes: ...
    def value(self) -> bytes: ...
    def next(self) -> None: ...
    def seek(self, target: bytes) -> None: ...
    def seek_to_first(self) -> None: ...
    def close(self) -> None: ...


class _Batch(Protocol):
    def put(self, key: bytes, value: bytes) -> None: ...
    def write(self) -> None: ...


class _Library(Protocol):
    """What is used of plyvel's DB."""

    def raw_iterator(self) -> _Iterator: ...
    def write_batch(self, *, sync: bool) -> _Batch: ...
    def close(self) -> None: ...


class _Plyvel(Protocol):
    """What is used of the module plyvel."""

    Error: type[Exception]

    def DB(self, name: str, *, create_if_missing: bool, error_if_exists: bool, paranoid_checks: bool) -> _Library: ...


@db("leveldb", "LevelDB", help="a folder with sorted tables; needs the extra package plyvel", needs="plyvel")
class LevelDB(DB):
    """A folder that LevelDB wrote or will write.

    Raises:
        DBError: as `open_db`.
        UnavailableError: plyvel is not installed.
    """

    def __init__(self, db_type: str, source: str, mode: Mode) -> None:
        super().__init__(db_type, source, mode)
        self._plyvel = _plyvel()
        if mode is Mode.NEW:
            check_empty_folder(db_type, source)
        elif mode is Mode.READ or kind_at(db_type, source) is not None:
            check_folder(db_type, source, "CURRENT")
            check_plain_files(db_type, source)
        else:
            check_parent(db_type, source)
        with self.translated("open"):
            self._library = self._plyvel.DB(
                source,
                create_if_missing=mode is not Mode.READ,
                error_if_exists=mode is Mode.NEW,
                paranoid_checks=True,
            )

    def cursor(self) -> LevelDBCursor:
        """Return a new cursor at the first record."""
        return LevelDBCursor(self)

    def transaction(self) -> LevelDBTransaction:
        """Return a new transaction."""
        return LevelDBTransaction(self)

    def iterator(self) -> _Iterator:
        """Return a new iterator of the library, over a snapshot."""
        return self._library.raw_iterator()

    def write(self, puts: list[tuple[bytes, bytes]]) -> None:
        """Write all records as one batch that reaches the disk."""
        with self.translated("write"):
            batch = self._library.write_batch(sync=True)
            for key, value in puts:
                batch.put(key, value)
            batch.write()

    @contextmanager
    def translated(self, act: str) -> Generator[None]:
        """Turn errors of the library into DBErrors."""
        try:
            yield
        except self._plyvel.Error as error:
            locked = "lock" in str(error).lower()
            raise DBError(
                f"{self}: cannot {act}: {error}", hint="close the other user of this folder" if locked else None
            ) from error

    def _close(self) -> None:
        self._library.close()


class LevelDBCursor(Cursor):
    """A cursor in a snapshot, which is taken anew by `seek_to_first`."""

    supports_seek = True

    def __init__(self, db: LevelDB) -> None:
        self._level = db
        self._iterator: _Iterator | None = None
        super().__init__(db)

    def _first(self) -> bytes | None:
        with self._level.translated("read"):
            self._release()
            self._iterator = self._level.iterator()
            self._iterator.seek_to_first()
            return self._key_at(self._iterator)

    def _after(self, key: bytes) -> bytes | None:
        with self._level.translated("read"):
            self._live().next()
            return self._key_at(self._live())

    def _at(self, key: bytes) -> bytes | None:
        with self._level.translated("seek"):
            self._live().seek(key)
            return self._key_at(self._live())

    def _value(self) -> bytes:
        with self._level.translated("read"):
            return self._live().value()

    def _release(self) -> None:
        if self._iterator is not None:
            self._iterator.close()
            self._iterator = None

    def _live(self) -> _Iterator:
        if self._iterator is None:
            self._iterator = self._level.iterator()
        return self._iterator

    @staticmethod
    def _key_at(iterator: _Iterator) -> bytes | None:
        return iterator.key() if iterator.valid() else None


class LevelDBTransaction(PendingPuts):
    """A transaction whose later put of a key wins."""

    def __init__(self, db: LevelDB) -> None:
        super().__init__(db)
        self._level = db

    def _commit(self) -> None:
        self._level.write(self._puts)


def _plyvel() -> _Plyvel:
    try:
        return cast(_Plyvel, importlib.import_module("plyvel"))
    except ImportError as error:
        raise UnavailableError(f"LevelDB is not available: {error}", hint="pip install 'tazza[leveldb]'") from error
