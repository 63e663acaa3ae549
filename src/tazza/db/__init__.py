"""Databases of records: minidb, protodb, LMDB and LevelDB, opened by type, and the reader that nets take data from.

    with open_db("lmdb", "digits") as db, db.cursor() as cursor:
        for key, value in cursor:
            ...

A further type is a subclass of `DB` under the decorator `db`. The libraries of LMDB and LevelDB are imported when
such a database is opened.
"""

from tazza.db.base import DB, DBS, Cursor, Mode, PendingPuts, Transaction, available_types, db, open_db
from tazza.db.leveldb import LevelDB
from tazza.db.lmdb import LMDB
from tazza.db.minidb import MiniDB
from tazza.db.protodb import ProtoDB
from tazza.db.reader import DBReader

__all__ = [
    "DB",
    "DBS",
    "LMDB",
    "Cursor",
    "DBReader",
    "LevelDB",
    "MiniDB",
    "Mode",
    "PendingPuts",
    "ProtoDB",
    "Transaction",
    "available_types",
    "db",
    "open_db",
]
