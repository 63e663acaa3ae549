"""minidb: one file of records, each two native int32 lengths, the key, the value; no header, index or checksum.

Records stay in the order in which they were put, equal keys included. A commit appends whole records and takes them
back when it fails. When a process is killed while it appends, all earlier records stay readable, and the cut-off one
is an error that says where the whole records end.

State: `MiniDB._file` is None until a new file has its first commit. Cursors read by position and share no offset;
commits of one DB follow each other under `_lock`, and two writers exclude each other by an advisory lock on the file.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from io import BytesIO, FileIO
from tempfile import SpooledTemporaryFile
from typing import IO

from tazza.db.base import DB, Cursor, Mode, Transaction, db
from tazza.db.place import check_file, check_parent, check_writable, kind_at, os_error
from tazza.errors import DBError, FileError
from tazza.runtime.files import atomic_write, open_descriptor
from tazza.runtime.fork import Guard

LENGTHS = struct.Struct("=ii")
LENGTH_MAX = 2**31 - 1
READ_AHEAD_BYTES = 256
"""Read with the lengths, so that keys of usual length cost no second system call."""

SPOOL_BYTES = 64 * 2**20
"""Puts beyond this many bytes wait for their commit in a temporary file instead of memory."""


class OwnedFile(FileIO):
    """A file that closes with its owner, if nobody did before: a reader in a blob of a net that is let go, for one.

    Python warns of an open file that is garbage, and does not say which goes first, the file or who would close it.
    """

    def __del__(self) -> None:
        """Close, without a word."""
        self.close()


@db("minidb", "MiniDB", help="one file of records in the order in which they were put; no index")
class MiniDB(DB):
    """A minidb file.

    A writer locks the file (advisory, `flock`) until it is closed; readers need no lock.

    Raises:
        DBError: as `open_db`; for adding records also when the file ends within a record.
    """

    def __init__(self, db_type: str, source: str, mode: Mode) -> None:
        super().__init__(db_type, source, mode)
        self._lock = Guard("a minidb")
        self._file: FileIO | None = None
        if mode is Mode.NEW:
            self._check_new()
        else:
            self._file = self._open_file()

    def cursor(self) -> MiniDBCursor:
        """Return a new cursor at the first record; a file that was not committed yet has none."""
        return MiniDBCursor(self)

    def transaction(self) -> MiniDBTransaction:
        """Return a new transaction."""
        return MiniDBTransaction(self)

    def size(self) -> int:
        """Return the number of bytes that are committed."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer at the end of the file only."""
        if self._file is None:
            return b""
        parts: list[bytes] = []
        try:
            while length > 0:
                part = os.pread(self._file.fileno(), length, offset)  # a single call gives 2 GiB at most
                if part == b"":
                    break
                parts.append(part)
                offset += len(part)
                length -= len(part)
        except OSError as error:
            raise os_error(self.db_type, self.source, f"read at byte {offset}", error) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def lengths(self, offset: int, head: bytes) -> tuple[int, int]:
        """Check and return the lengths of key and value of the record at `offset`, whose first bytes are `head`.

        Raises:
            DBError: they are negative, or reach beyond the end of the file.
        """
        left = self.size() - offset
        if left < LENGTHS.size:
            raise self._truncated(offset, f"its lengths need {LENGTHS.size} bytes, {left} are left")
        key, value = LENGTHS.unpack_from(head)
        if key < 0 or value < 0:
            raise DBError(
                f"{self}: the record at byte {offset} has key length {key} and value length {value}, and none may be"
                " negative",
                hint="this is no minidb, or it was written on a machine of other byte order",
            )
        if key == value == 0:
            raise DBError(
                f"{self}: the record at byte {offset} has neither key nor value, as where a file has a hole",
                hint=f"cut the file to {offset} bytes to keep the records before it",
            )
        if LENGTHS.size + key + value > left:
            raise self._truncated(
                offset,
                f"key length {key} and value length {value} need {LENGTHS.size + key + value} bytes, {left} are left",
            )
        return key, value

    def append(self, records: IO[bytes]) -> None:
        """Write whole records at the end, or on failure nothing."""
        with self._lock:
            if self._file is None:
                self._replace(records)
                self._file = self._open_file()
                return
            self._check_not_replaced(self._file)
            end = self.size()
            try:
                with open(self._file.fileno(), "ab", closefd=False) as out:
                    shutil.copyfileobj(records, out, 2**20)
                os.fsync(self._file.fileno())
            except BaseException as error:
                os.ftruncate(self._file.fileno(), end)
                if isinstance(error, OSError):
                    raise os_error(self.db_type, self.source, "append", error) from error
                raise

    def _replace(self, records: IO[bytes]) -> None:
        try:
            with atomic_write(self.source) as out:
                shutil.copyfileobj(records, out, 2**20)
        except FileError as error:
            raise DBError(f"{self}: {error.message}", hint=error.hint) from error

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _check_new(self) -> None:
        if kind_at(self.db_type, self.source) is not None:
            check_file(self.db_type, self.source)
        check_parent(self.db_type, self.source)

    def _open_file(self) -> FileIO:
        if self.mode is Mode.READ or kind_at(self.db_type, self.source) is not None:
            check_file(self.db_type, self.source)
        else:
            check_parent(self.db_type, self.source)
        try:
            # "a+" creates a missing file and leaves one that is there as it is.
            file = OwnedFile(self.source, "r" if self.mode is Mode.READ else "a+", opener=open_descriptor)
        except FileError as error:
            if self.mode is not Mode.READ:
                check_writable(self.db_type, self.source, self.source)
            raise DBError(f"{self}: {error.message}", hint=error.hint) from error
        if self.mode is not Mode.READ:
            self._file = file
            self._prepare_writing(file)
        return file

    def _prepare_writing(self, file: FileIO) -> None:
        """Lock the file and check that it ends with a whole record, without which appending would spoil it."""
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            offset = 0
            while offset < self.size():
                offset += LENGTHS.size + sum(self.lengths(offset, self.read(offset, LENGTHS.size)))
        except BaseException as error:
            file.close()
            if isinstance(error, BlockingIOError):
                raise DBError(f"{self} is locked by another writer", hint="close the other writer first") from error
            raise

    def _check_not_replaced(self, file: FileIO) -> None:
        try:
            same = os.path.samestat(os.fstat(file.fileno()), os.stat(self.source))
        except OSError:
            same = False
        if not same:
            raise DBError(f"{self} was removed or replaced while it was open", hint="open it again")

    def _truncated(self, offset: int, why: str) -> DBError:
        if offset == 0:  # nothing tells that it ever was a minidb: nobody is to cut it
            return DBError(
                f"{self} is truncated, or is something else: of the record at byte 0, {why}",
                hint="look whether it is a minidb: nothing of it can be read as one",
            )
        return DBError(
            f"{self} is truncated: of the record at byte {offset}, {why}",
            hint=f"cut the file to {offset} bytes to keep the whole records before it",
        )


class MiniDBCursor(Cursor):
    """A cursor that knows the byte offset of its record."""

    def __init__(self, db: MiniDB) -> None:
        self._mini = db
        self._offset = 0
        self._lengths = (0, 0)
        super().__init__(db)

    def _first(self) -> bytes | None:
        return self._load(0)

    def _after(self, key: bytes) -> bytes | None:
        return self._load(self._offset + LENGTHS.size + sum(self._lengths))

    def _value(self) -> bytes:
        key, value = self._lengths
        data = self._mini.read(self._offset + LENGTHS.size + key, value)
        if len(data) != value:
            raise DBError(
                f"{self._mini} was cut while it was read: {len(data)} of the {value} bytes of a value are left"
            )
        return data

    def _release(self) -> None:
        """Do nothing: the file belongs to the DB."""

    def _load(self, offset: int) -> bytes | None:
        self._offset, self._lengths = offset, (0, 0)
        head = self._mini.read(offset, LENGTHS.size + READ_AHEAD_BYTES)
        if head == b"":
            return None
        self._lengths = self._mini.lengths(offset, head)
        end = LENGTHS.size + self._lengths[0]
        return (
            head[LENGTHS.size : end] if end <= len(head) else self._mini.read(offset + LENGTHS.size, self._lengths[0])
        )


class MiniDBTransaction(Transaction):
    """A transaction that keeps its records in memory, or in a temporary file when they are many."""

    def __init__(self, db: MiniDB) -> None:
        super().__init__(db)
        self._mini = db
        self._spool: SpooledTemporaryFile[bytes] | None = None

    def _put(self, key: bytes, value: bytes) -> None:
        for what, data in (("key", key), ("value", value)):
            if len(data) > LENGTH_MAX:
                raise DBError(f"{self._mini}: a {what} has {len(data)} bytes, and may have {LENGTH_MAX} at most")
        if not key and not value:
            raise DBError(f"{self._mini}: a record has neither key nor value", hint="give it one of them")
        if self._spool is None:
            self._spool = SpooledTemporaryFile(max_size=SPOOL_BYTES)
        start = self._spool.tell()
        try:
            self._spool.writelines((LENGTHS.pack(len(key), len(value)), key, value))
        except OSError as error:
            self._spool.seek(start)
            self._spool.truncate()
            raise os_error(self._mini.db_type, self._mini.source, "keep a record for its commit", error) from error

    def _commit(self) -> None:
        if self._spool is None:
            self._mini.append(BytesIO())
        else:
            self._spool.seek(0)
            self._mini.append(self._spool)

    def _discard(self) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None
