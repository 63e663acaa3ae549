"""A type of database: a text file whose lines are the records, and their numbers the keys: 00000000, 00000001 ..."""

from __future__ import annotations

from tazza.db import DB, Cursor, Mode, PendingPuts, db
from tazza.db.place import check_file, check_parent, check_writable, kind_at
from tazza.errors import DBError, FileError
from tazza.runtime.files import read_bytes, write_bytes_atomically

BYTES_MAX = 2**30
"""The whole file is in memory while it is open."""


@db("lines", help="a text file: each line is a record, its number the key")
class LinesDB(DB):
    """A file of lines.

    Raises:
        DBError: as `open_db`.
    """

    def __init__(self, db_type: str, source: str, mode: Mode) -> None:
        """Read what is there; a new file is there after the first commit."""
        super().__init__(db_type, source, mode)
        self.lines: tuple[bytes, ...] = ()
        there = kind_at(db_type, source) is not None
        if mode is Mode.READ or there:
            check_file(db_type, source)
        if mode is not Mode.READ:
            check_parent(db_type, source)
        if mode is Mode.WRITE and there:
            check_writable(db_type, source, source)
        if mode is Mode.READ or (mode is Mode.WRITE and there):
            self.lines = self._read()

    def cursor(self) -> LinesCursor:
        """Return a new cursor at the first line."""
        return LinesCursor(self)

    def transaction(self) -> LinesTransaction:
        """Return a new transaction."""
        return LinesTransaction(self)

    def append(self, lines: tuple[bytes, ...]) -> None:
        """Write the file anew, beside the old one, and put it in its place: all lines are there or none."""
        everything = (*self.lines, *lines)
        try:
            write_bytes_atomically(self.source, b"".join(line + b"\n" for line in everything))
        except FileError as error:
            raise DBError(f"{self}: {error.message}", hint=error.hint) from error
        self.lines = everything

    def _read(self) -> tuple[bytes, ...]:
        try:
            return tuple(read_bytes(self.source, "file of lines", BYTES_MAX).splitlines())
        except FileError as error:
            raise DBError(f"{self}: {error.message}", hint=error.hint) from error

    def _close(self) -> None:
        self.lines = ()


def key_of(number: int) -> bytes:
    """Return the key of a line.

    >>> key_of(7)
    b'00000007'
    """
    return f"{number:08d}".encode()


class LinesCursor(Cursor):
    """A cursor over the lines that were there when it last went to the first one."""

    supports_seek = True

    def __init__(self, db: LinesDB) -> None:
        """Stand at the first line."""
        self._db = db
        self._lines: tuple[bytes, ...] = ()
        self._number = 0
        super().__init__(db)

    def _first(self) -> bytes | None:
        self._lines = self._db.lines
        return self._go(0)

    def _after(self, key: bytes) -> bytes | None:
        del key  # the number says it
        return self._go(self._number + 1)

    def _at(self, key: bytes) -> bytes | None:
        return self._go(next((number for number in range(len(self._lines)) if key_of(number) >= key), len(self._lines)))

    def _value(self) -> bytes:
        return self._lines[self._number]

    def _release(self) -> None:
        self._lines = ()

    def _go(self, number: int) -> bytes | None:
        self._number = number
        return key_of(number) if number < len(self._lines) else None


class LinesTransaction(PendingPuts):
    """A transaction that takes lines under their numbers, in turn."""

    def __init__(self, db: LinesDB) -> None:
        """Begin behind the last line."""
        super().__init__(db)
        self._lines = db

    def _put(self, key: bytes, value: bytes) -> None:
        wanted = key_of(len(self._lines.lines) + len(self._puts))
        if key != wanted:
            raise DBError(f"{self._lines}: the next line has the key {wanted.decode()!r}, not {key!r}")
        if len(value.splitlines()) > 1 or value.endswith((b"\n", b"\r")):
            raise DBError(f"{self._lines}: line {wanted.decode()} would be several: it holds an end of line")
        super()._put(key, value)

    def _commit(self) -> None:
        self._lines.append(tuple(value for _, value in self._puts))
