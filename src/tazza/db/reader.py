"""An endless reader of a DB for many threads: what the operators that read data take their records from.

State: the DB, its cursor, where that stands and whether they are closed, changed only under `_lock`; the rest is
constant. An interrupt (Ctrl-C) may come in the middle of a move, which leaves the cursor `_astray`: it is brought back
to where it stood before its next use. A record that was read and could not be handed over waits in `_returned`.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, Self

from tazza.db.base import Cursor, Mode, open_db
from tazza.errors import ArgumentError, DBError
from tazza.proto import BlobProto, DBReaderProto
from tazza.proto.message import parse, serialize
from tazza.runtime.closing import Closing
from tazza.runtime.fork import Guard
from tazza.runtime.patience import Patience
from tazza.tensor.blob import blob_type
from tazza.tensor.serializer import SERIALIZERS, ContentSerializer


@blob_type("caffe2::db::DBReader", serialized="DBReader")
class DBReader(Closing):
    """Reads records k, k + n, k + 2 n ... of a DB, with k = `shard_id` and n = `num_shards`, again and again.

    After the last of these it starts again at record k; with `endless` it goes on in the same step instead, as if the
    records of all rounds lay one behind the other: n readers then take what one would, round after round. `start` is
    the key that the first `read` looks for, once; it takes a format with an index. With `defer` the DB is opened by the
    first use, which then raises what is wrong with it.

    Raises:
        ArgumentError: not 0 <= shard_id < num_shards.
        DBError: the DB cannot be opened (see `open_db`), has no record k, or none at or after `start`.
        UnavailableError: the library of this type is not installed.
    """

    def __init__(
        self,
        db_type: str,
        source: str | os.PathLike[str],
        num_shards: int = 1,
        shard_id: int = 0,
        *,
        start: bytes | None = None,
        defer: bool = False,
        endless: bool = False,
    ) -> None:
        if not 0 <= shard_id < num_shards:
            raise ArgumentError(
                f"DBReader of {db_type} '{source}': shard_id {shard_id} is not in 0 ... num_shards - 1, with num_shards"
                f" {num_shards}"
            )
        self.db_type = db_type
        self.source = os.fspath(source)
        self.num_shards = num_shards
        self.shard_id = shard_id
        self.endless = endless
        self._start = start
        self._lock = Guard(f"the reader of {self.source!r}")
        self._closed = False
        self._opened: Cursor | None = None
        self._astray = False
        self._stands: tuple[int, bytes] = 0, b""  # how many records come before the next one; its key during a move
        self._returned: deque[tuple[bytes, bytes]] = deque()
        if not defer:
            self._cursor()

    @classmethod
    def from_proto(cls, proto: DBReaderProto, *, defer: bool = False) -> Self:
        """Return the reader that `to_proto` described, with one shard whatever it had, as Caffe2 does.

        Raises:
            DBError: as the constructor; a minidb or protodb with a stored position is such a case.
        """
        start = proto.key.encode() if proto.HasField("key") else None
        return cls(proto.db_type, proto.source, start=start, defer=defer)

    def to_proto(self, name: str = "") -> DBReaderProto:
        """Describe the reader: `name`, source, type, and for a format with an index the key that `read` gives next.

        Raises:
            DBError: the reader is closed, or that key is not UTF-8, which this message cannot hold.
        """
        proto = DBReaderProto(name=name, source=self.source, db_type=self.db_type)
        position = self.position
        if position is not None:
            try:
                proto.key = position.decode()
            except UnicodeDecodeError as error:
                raise DBError(f"{self!r}: the position {position!r} cannot be stored, since it is not UTF-8") from error
        return proto

    @property
    def position(self) -> bytes | None:
        """Key of the record that `read` gives next; None in a format without an index, where a key is no position.

        Raises:
            DBError: the reader is closed.
        """
        with self._lock:
            cursor = self._cursor()
            if not cursor.supports_seek:
                return None
            return self._returned[0][0] if self._returned else cursor.key

    def read(self, patience: Patience | None = None) -> tuple[bytes, bytes]:
        """Return key and value of the next record of the shard; every record goes to one thread.

        A call that an interrupt (Ctrl-C) ends has read nothing. `patience` is for readers that have to wait.

        Raises:
            DBError: this record or the one after it is corrupt, or the reader is closed.
        """
        del patience
        records: list[tuple[bytes, bytes]] = []
        handed = False
        try:
            with self._lock:
                self._take(self._cursor(), records)
            handed = True
            return records[0]
        finally:
            if not handed:
                self._returned.extend(records)

    def wake(self) -> None:
        """Let all who wait for a record look again: nobody waits for a database."""

    def cursor(self) -> Cursor:
        """Return a new cursor at the first record of the DB, which leaves the reader where it is.

        Raises:
            DBError: the reader is closed.
        """
        with self._lock:
            return self._cursor().db.cursor()

    def close(self) -> None:
        """Close the DB; closing twice is allowed."""
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened.db.close()

    def __del__(self) -> None:
        """Close with the last reference: a reader lives as long as a blob holds it, and nobody else closes it.

        Not when the interpreter ends: a thread that was stopped for ever then may hold the lock of the database.
        """
        if not sys.is_finalizing() and getattr(self, "_opened", None) is not None:  # not when the constructor failed
            self.close()

    def __repr__(self) -> str:
        return f"DBReader({self.db_type!r}, {self.source!r}, num_shards={self.num_shards}, shard_id={self.shard_id})"

    def _cursor(self) -> Cursor:
        if self._closed:
            raise DBError(f"{self!r} is used after its close")
        if self._opened is None:
            cursor = self._open()
            self._opened, self._stands = cursor, (self.shard_id, b"")
        if self._astray:
            self._bring_back(self._opened)
            self._astray = False
        return self._opened

    def _open(self) -> Cursor:
        db = open_db(self.db_type, self.source, Mode.READ)
        try:
            cursor = db.cursor()
            if self._start is None:
                self._skip_to_shard(cursor)
                return cursor
            cursor.seek(self._start)
            if not cursor.valid:
                raise DBError(f"{db} has no record at or after the stored position {self._start!r}")
        except BaseException:
            db.close()
            raise
        return cursor

    def _take(self, cursor: Cursor, records: list[tuple[bytes, bytes]]) -> None:
        """Put the next record into an empty list, and go on to the one behind it; both or nothing."""
        if self._returned:
            kind: Any = deque
            records[:] = map(kind.popleft, [self._returned])
            return
        record = cursor.key, cursor.value
        self._astray, self._stands = True, (self._stands[0], record[0])
        try:
            before = self._advance(cursor)
        except Exception:
            self._astray = False
            raise
        records += (record,)  # from here on nothing is called
        self._astray, self._stands = False, (before, b"")

    def _bring_back(self, cursor: Cursor) -> None:
        """Go to where the cursor stood before a move that was interrupted."""
        before, key = self._stands
        if cursor.supports_seek:
            cursor.seek(key)
        else:
            cursor.seek_to_first()
            for _ in range(before):
                cursor.next()

    def _advance(self, cursor: Cursor) -> int:
        """Go to the next record of the shard; return how many come before it."""
        before = self._stands[0]
        for _ in range(self.num_shards):
            cursor.next()
            before += 1
            if cursor.valid:
                continue
            if not self.endless:
                self._skip_to_shard(cursor)
                return self.shard_id
            cursor.seek_to_first()
            before = 0
        return before

    def _skip_to_shard(self, cursor: Cursor) -> None:
        cursor.seek_to_first()
        count = 0
        while cursor.valid and count < self.shard_id:
            cursor.next()
            count += 1
        if not cursor.valid:
            raise DBError(
                f"{cursor.db} has {count} records, and shard {self.shard_id} of {self.num_shards} begins at record"
                f" {self.shard_id}, counted from 0",
                hint="put records into it first" if count == 0 else "use fewer shards",
            )


class DBReaderSerializer(ContentSerializer[DBReader]):
    """A reader: a DBReaderProto.

    Loading a file must read no other one, so that the reader opens its DB when it is first used.
    """

    type_name = "DBReader"

    def encode(self, value: DBReader) -> bytes:
        """Return the message, without a name."""
        return serialize(value.to_proto())

    def decode(self, content: bytes, name: str) -> DBReader:
        """Return a reader that has opened nothing yet."""
        return DBReader.from_proto(parse(DBReaderProto, content, f"the DB reader {name!r}"), defer=True)

    def records(self, value: DBReader, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield the one record, with the name of the blob in the message as well."""
        yield name, BlobProto(name=name, type=self.type_name, content=serialize(value.to_proto(name)))


SERIALIZERS.register(DBReaderSerializer.type_name, DBReaderSerializer(), help="a DB reader and its position")
