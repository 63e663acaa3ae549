"""protodb: one file that holds one TensorProtos message; each record is a TensorProto whose name is the key.

The whole message is in memory while the DB is open, and every commit writes the whole file anew, as one step.
"""

from __future__ import annotations

from tazza.db.base import DB, Cursor, Mode, PendingPuts, db
from tazza.db.place import check_file, check_parent, check_writable, kind_at
from tazza.errors import DBError, FileError, FormatError
from tazza.proto import TensorProto, TensorProtos
from tazza.proto.message import BYTES_MAX, parse, serialize
from tazza.runtime.files import read_bytes, write_bytes_atomically
from tazza.runtime.fork import Guard

Record = tuple[bytes, bytes]


@db("protodb", "ProtoDB", help="one file holding a TensorProtos message, whose tensors are the records")
class ProtoDB(DB):
    """A file with one TensorProtos message; reading and writing keep the order of its tensors.

    Raises:
        DBError: as `open_db`; also when the file does not parse.
    """

    def __init__(self, db_type: str, source: str, mode: Mode) -> None:
        super().__init__(db_type, source, mode)
        self._lock = Guard("a protodb")
        self._records: tuple[Record, ...] = ()
        self._keys: frozenset[bytes] = frozenset()
        exists = kind_at(db_type, source) is not None
        if mode is Mode.READ or exists:
            check_file(db_type, source)
        if mode is not Mode.READ:
            check_parent(db_type, source)
        if mode is Mode.WRITE and exists:
            check_writable(db_type, source, source)
        if mode is Mode.READ or (mode is Mode.WRITE and exists):
            self._keep(self._load())

    def cursor(self) -> ProtoDBCursor:
        """Return a new cursor at the first record."""
        return ProtoDBCursor(self)

    def transaction(self) -> ProtoDBTransaction:
        """Return a new transaction."""
        return ProtoDBTransaction(self)

    def records(self) -> tuple[Record, ...]:
        """Return what is committed."""
        return self._records

    def has(self, key: bytes) -> bool:
        """Return whether a committed record has this key."""
        return key in self._keys

    def add(self, puts: list[Record]) -> None:
        """Write the file anew with more records."""
        with self._lock:
            records = (*self._records, *puts)
            try:
                message = TensorProtos(protos=[TensorProto.FromString(value) for _, value in records])
                write_bytes_atomically(self.source, serialize(message))
            except (FileError, FormatError) as error:
                raise DBError(f"{self}: {error.message}", hint=error.hint) from error
            self._keep(records)

    def _keep(self, records: tuple[Record, ...]) -> None:
        self._records = records
        self._keys = frozenset(key for key, _ in records)

    def _load(self) -> tuple[Record, ...]:
        try:
            # A text form would be chosen by the suffix of the name, and a protodb is always binary.
            data = read_bytes(self.source, "protodb", BYTES_MAX)
            message = parse(TensorProtos, data, f"'{self.source}'")
        except FormatError as error:
            raise DBError(f"{self} is corrupt: {error.message}", hint=error.hint) from error
        except FileError as error:
            raise DBError(f"{self}: {error.message}", hint=error.hint) from error
        return tuple((tensor.name.encode(), tensor.SerializeToString()) for tensor in message.protos)

    def _close(self) -> None:
        self._records = ()


class ProtoDBCursor(Cursor):
    """A cursor over the records that were committed when it last went to the first one."""

    def __init__(self, db: ProtoDB) -> None:
        self._proto = db
        self._records: tuple[Record, ...] = ()
        self._index = 0
        super().__init__(db)

    def _first(self) -> bytes | None:
        self._records = self._proto.records()
        return self._go(0)

    def _after(self, key: bytes) -> bytes | None:
        return self._go(self._index + 1)

    def _value(self) -> bytes:
        return self._records[self._index][1]

    def _release(self) -> None:
        self._records = ()

    def _go(self, index: int) -> bytes | None:
        self._index = index
        return self._records[index][0] if index < len(self._records) else None


class ProtoDBTransaction(PendingPuts):
    """A transaction that takes tensors under their own names, each name once."""

    def __init__(self, db: ProtoDB) -> None:
        super().__init__(db)
        self._proto = db
        self._keys: set[bytes] = set()

    def _put(self, key: bytes, value: bytes) -> None:
        try:
            tensor = parse(TensorProto, value, f"the value of key {key!r}")
        except FormatError as error:
            raise DBError(f"{self._proto} holds tensors only: {error.message}", hint=error.hint) from error
        if tensor.name.encode() != key:
            raise DBError(
                f"{self._proto}: the key {key!r} differs from the name of its tensor, '{tensor.name}'",
                hint="this format stores keys as names of tensors; give the tensor the key as its name",
            )
        if key in self._keys or self._proto.has(key):
            raise DBError(f"{self._proto} has a record with the key {key!r} already", hint="use another key")
        super()._put(key, value)
        self._keys.add(key)

    def _commit(self) -> None:
        self._proto.add(self._puts)

    def _discard(self) -> None:
        super()._discard()
        self._keys = set()
