"""Databases, as the extension gave them to Python."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class Mode(IntEnum):
    """What a database is opened for."""

    read = 0
    write = 1
    new = 2


read, write, new = Mode.read, Mode.write, Mode.new


class Cursor:
    """A position among the records."""

    def __init__(self, cursor: Any) -> None:
        """Show a cursor of tazza."""
        self._cursor = cursor

    def supports_seek(self) -> bool:
        """Whether it can go to a key."""
        return self._cursor.supports_seek

    def seek_to_first(self) -> None:
        """Go to the first record."""
        self._cursor.seek_to_first()

    def next(self) -> None:
        """Go to the next record."""
        self._cursor.next()

    def key(self) -> bytes:
        """Return the key of the record."""
        return self._cursor.key

    def value(self) -> bytes:
        """Return the record."""
        return self._cursor.value

    def valid(self) -> bool:
        """Whether there is a record here."""
        return self._cursor.valid


class Transaction:
    """Records that are written together."""

    def __init__(self, transaction: Any) -> None:
        """Show a transaction of tazza."""
        self._transaction = transaction

    def put(self, key: str | bytes, value: str | bytes) -> None:
        """Add a record."""
        self._transaction.put(key, value.encode() if isinstance(value, str) else value)

    def commit(self) -> None:
        """Write what was added since the last time."""
        self._transaction.commit()

    def __del__(self) -> None:
        """Write what is left, as the destructor did."""
        transaction = getattr(self, "_transaction", None)
        if transaction is not None and transaction.pending:
            transaction.commit()


class DB:
    """An open database."""

    def __init__(self, database: Any) -> None:
        """Show a database of tazza."""
        self._db = database

    def new_transaction(self) -> Transaction:
        """Return a transaction."""
        return Transaction(self._db.transaction())

    def new_cursor(self) -> Cursor:
        """Return a cursor at the first record."""
        return Cursor(self._db.cursor())

    def close(self) -> None:
        """Close it."""
        self._db.close()


def create_db(db_type: str, source: str, mode: Mode) -> DB:
    """Open a database."""
    from tazza import db

    return DB(db.open_db(db_type, source, db.Mode(Mode(mode).name)))


def registered_dbs() -> list[str]:
    """Return the names of the kinds of databases whose libraries are there."""
    from tazza.db import available_types

    return available_types()
