"""LMDB: a folder with a memory-mapped B-tree, sorted by key, one value for each key; cursors seek.

Any number of DBs of a process can have the same folder open; see `tazza.db.environment`. Other processes may read and
write it at the same time.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tazza.db.base import DB, Cursor, Mode, PendingPuts, db
from tazza.db.environment import Environment, Translated, abandon, acquire, release
from tazza.db.lmdb_pages import Walk
from tazza.errors import DBError

if TYPE_CHECKING:
    import lmdb


@db("lmdb", "LMDB", help="a folder with a memory-mapped tree, sorted by key; many readers and one writer at a time")
class LMDB(DB):
    """A folder that LMDB, or Caffe2 through it, wrote or will write.

    Raises:
        DBError: as `open_db`.
        UnavailableError: the Python package `lmdb` is missing or older than 3.0.
    """

    def __init__(self, db_type: str, source: str, mode: Mode) -> None:
        super().__init__(db_type, source, mode)
        self.environment = acquire(db_type, source, mode)
        self._release = weakref.finalize(self, abandon, self.environment)

    def cursor(self) -> LMDBCursor:
        """Return a new cursor at the first record."""
        return LMDBCursor(self)

    def transaction(self) -> LMDBTransaction:
        """Return a new transaction; its commit waits for writers of other processes."""
        return LMDBTransaction(self)

    def _close(self) -> None:
        if self._release.detach() is not None:
            release(self.environment)


class LMDBCursor(Cursor):
    """A cursor in a snapshot, which is taken anew by `seek_to_first` and when the map had to grow.

    The library's transaction keeps writers from the pages of the snapshot; they are read by `tazza.db.lmdb_pages`.
    """

    supports_seek = True

    def __init__(self, db: LMDB) -> None:
        self._environment: Environment = db.environment
        self._transaction: lmdb.Transaction[bytes] | None = None
        self._walk: Walk | None = None
        self._reading = Translated(db.environment.name, "read")
        with self._environment.lock:
            self._environment.readers.add(self)
        super().__init__(db)

    def park(self) -> None:
        """End the read transaction; the next use starts another one at the same key."""
        self._walk = None
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None

    def _release(self) -> None:
        with self._environment.lock:
            self._environment.readers.discard(self)
            self.park()

    def _first(self) -> bytes | None:
        with self._environment.lock, self._reading:
            self.park()
            return self._live(None).first()

    def _after(self, key: bytes) -> bytes | None:
        walk = self._walk  # a page that was read stays as it is, so that nothing is locked within one
        found = None if walk is None else walk.step()
        if found is not None:
            return found
        with self._environment.lock, self._reading:
            return self._live(key).next()

    def _at(self, key: bytes) -> bytes | None:
        with self._environment.lock, self._reading:
            return self._live(None).seek(key)

    def _value(self) -> bytes:
        walk = self._walk
        held = None if walk is None else walk.held()
        if held is not None:
            return held
        with self._environment.lock, self._reading:
            return self._live(self._key).value()

    def _live(self, key: bytes | None) -> Walk:
        """Return the position in the snapshot, brought back to `key` if this cursor had parked there."""
        if self._walk is None:
            self._transaction, snapshot = self._environment.begin()
            walk = Walk(snapshot, snapshot.meta.main)
            if key is not None and walk.seek(key) != key:
                raise DBError(f"{self.db}: the record {key!r} was removed while a cursor stood on it")
            self._walk = walk
        return self._walk


class LMDBTransaction(PendingPuts):
    """A transaction whose later put of a key wins."""

    def __init__(self, db: LMDB) -> None:
        super().__init__(db)
        self._environment = db.environment

    def _put(self, key: bytes, value: bytes) -> None:
        longest = self._environment.key_bytes_max()
        if not 0 < len(key) <= longest:
            raise DBError(f"{self._db}: a key has {len(key)} bytes, and must have 1 to {longest}")
        super()._put(key, value)

    def _commit(self) -> None:
        self._environment.write(self._puts)
