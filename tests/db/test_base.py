"""Laws that hold for every type of database, whatever its format."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tazza.db import DB, DBS, Mode, Transaction, db, open_db
from tazza.errors import DBError
from tests.db.conftest import Fill, contents, record

SORTED = {"lmdb", "leveldb"}
"""Types that keep the last value of each key, sorted by key."""

Puts = list[tuple[str, bytes]]
Model = list[tuple[bytes, bytes]]

keys = st.text("ab0é", min_size=1, max_size=3)
puts = st.lists(st.tuples(keys, st.binary(max_size=40)), max_size=6, unique_by=lambda put: put[0])
endings = st.sampled_from(["commit", "discard", "raise"])
transactions = st.lists(st.tuples(puts, endings, st.booleans()), max_size=5)


def apply(model: Model, db_type: str, new: Puts) -> Model:
    """Return what a database should hold after `new` was put."""
    joined = model + [(key.encode(), record(key, payload)) for key, payload in new]
    return sorted(dict(joined).items()) if db_type in SORTED else joined


def run(transaction: Transaction, new: Puts, ending: str) -> None:
    """Put records and end the transaction in one of three ways."""
    try:
        with transaction:
            for key, payload in new:
                transaction.put(key, record(key, payload))
            if ending == "discard":
                transaction.discard()
            if ending == "raise":
                raise InterruptedError
    except InterruptedError:
        pass


def read(database: DB) -> Model:
    """Return all records that a new cursor sees."""
    with database.cursor() as cursor:
        return list(cursor)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(transactions=transactions)
def test_a_db_holds_what_was_committed(db_type: str, transactions: list[tuple[Puts, str, bool]]) -> None:
    model: Model = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "db")
        database = open_db(db_type, source, Mode.NEW)
        for new, ending, reopen in transactions:
            held = {key for key, _ in model}
            fresh = [put for put in new if put[0].encode() not in held] if db_type == "protodb" else new
            run(database.transaction(), fresh, ending)
            model = apply(model, db_type, fresh) if ending == "commit" else model
            assert read(database) == model
            if reopen and source.exists():
                database.close()
                assert contents(db_type, source) == model
                database = open_db(db_type, source, Mode.WRITE)
        database.close()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(held=st.sets(keys, min_size=1), wanted=keys)
def test_seek_finds_the_first_key_that_is_not_smaller(
    db_type: str, tmp_path_factory: pytest.TempPathFactory, fill: Fill, held: set[str], wanted: str
) -> None:
    source = tmp_path_factory.mktemp("seek") / "db"
    fill(db_type, source, held)
    not_smaller = sorted(key.encode() for key in held if key.encode() >= wanted.encode())
    with open_db(db_type, source) as database, database.cursor() as cursor:
        if not cursor.supports_seek:
            with pytest.raises(DBError, match="has no index"):
                cursor.seek(wanted)
            assert not cursor.valid or cursor.key in {key.encode() for key in held}
            return
        cursor.seek(wanted)
        assert [key for key, _ in cursor] == not_smaller


@pytest.mark.parametrize("mode", [Mode.READ, Mode.WRITE])
def test_a_db_that_nobody_closed_ends_quietly(db_type: str, mode: Mode, tmp_path: Path, fill: Fill) -> None:
    """As one in a blob of a net that failed: no warning from a finalizer, and the files are closed."""
    fill(db_type, tmp_path / "db", ["a", "b"])
    cycle: list[object] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        database = open_db(db_type, tmp_path / "db", mode)
        cycle.extend([cycle, database, database.cursor()])
        del database
        cycle = []
        gc.collect()
    assert [str(each.message) for each in told] == []
    with open_db(db_type, tmp_path / "db", Mode.WRITE):
        pass


def test_a_transaction_can_commit_several_times(db_type: str, tmp_path: Path) -> None:
    with open_db(db_type, tmp_path / "db", Mode.NEW) as database:
        transaction = database.transaction()
        for key in "ab":
            transaction.put(key, record(key, b"1"))
            assert transaction.pending == 1
            transaction.commit()
            assert transaction.pending == 0
    assert [key for key, _ in contents(db_type, tmp_path / "db")] == [b"a", b"b"]


def test_cursor_walks_and_starts_again(db_type: str, tmp_path: Path, fill: Fill) -> None:
    records = fill(db_type, tmp_path / "db", ["a", "b", "c"])
    with open_db(db_type, tmp_path / "db") as database, database.cursor() as cursor:
        cursor.next()
        assert (cursor.key, cursor.value) == records[1]
        cursor.next()
        cursor.next()
        assert not cursor.valid
        for use in (lambda: cursor.key, lambda: cursor.value, cursor.next):
            with pytest.raises(DBError, match="stands on no record"):
                use()
        cursor.seek_to_first()
        assert (cursor.key, cursor.value) == records[0]


def test_write_creates_a_missing_db(db_type: str, tmp_path: Path, fill: Fill) -> None:
    records = fill(db_type, tmp_path / "db", ["a"])
    assert contents(db_type, tmp_path / "db") == records


def test_an_empty_commit_makes_an_empty_db(db_type: str, tmp_path: Path) -> None:
    with open_db(db_type, tmp_path / "db", Mode.NEW) as database, database.transaction():
        pass
    assert contents(db_type, tmp_path / "db") == []


def test_use_after_close(db_type: str, tmp_path: Path, fill: Fill) -> None:
    source = tmp_path / "db"
    fill(db_type, source, ["a"])
    database = open_db(db_type, source, Mode.WRITE)
    cursor, closed, transaction = database.cursor(), database.cursor(), database.transaction()
    closed.close()
    with pytest.raises(DBError, match=r"cursor of .* is used after its close"):
        closed.next()
    database.close()
    database.close()
    uses: list[Callable[[], object]] = [
        lambda: cursor.key,
        lambda: cursor.value,
        cursor.next,
        cursor.seek_to_first,
        lambda: cursor.seek("a"),
        lambda: transaction.put("b", record("b", b"")),
        transaction.commit,
        database.cursor,
        database.transaction,
    ]
    for use in uses:
        with pytest.raises(DBError, match=r"db' is used after its close"):
            use()
    cursor.close()
    assert len(contents(db_type, source)) == 1


def test_reading_mode_has_no_transactions(db_type: str, tmp_path: Path, fill: Fill) -> None:
    fill(db_type, tmp_path / "db", ["a"])
    with open_db(db_type, tmp_path / "db") as database, pytest.raises(DBError, match="for reading only"):
        database.transaction()


def test_forgotten_puts_are_reported(db_type: str, tmp_path: Path) -> None:
    with open_db(db_type, tmp_path / "db", Mode.WRITE) as database:
        transaction = database.transaction()
        transaction.put("a", record("a", b""))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del transaction
    assert [str(warning.message) for warning in caught] == [
        f"records that were put into {database} but never committed: 1"
    ]


KILLED = """
import os, sys
from tazza.db import Mode, open_db
from tests.db.conftest import record

for argument in sys.argv[1:]:
    db_type, source, mode = argument.split("=")
    if os.fork() == 0:
        transaction = open_db(db_type, source, Mode(mode)).transaction()
        for index in range(3000):
            transaction.put(f"late{index}", record(f"late{index}", bytes(300)))
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 9
"""


@pytest.mark.slow
def test_a_process_killed_in_a_transaction_changes_nothing(tmp_path: Path, fill: Fill) -> None:
    held: dict[tuple[str, Path], Model] = {}
    arguments: list[str] = []
    for name, mode in (
        ("minidb", "new"),
        ("minidb", "write"),
        ("protodb", "new"),
        ("protodb", "write"),
        ("lmdb", "write"),
    ):
        source = tmp_path / f"{name}-{mode}"
        held[name, source] = fill(name, source, ["a", "b"])
        arguments.append(f"{name}={source}={mode}")
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", KILLED, *arguments], check=True, cwd=root, timeout=60)
    assert {(name, source): contents(name, source) for name, source in held} == held


def test_a_type_is_registered_with_its_help() -> None:
    class Nothing(DB):
        cursor = transaction = _close = lambda self: None  # pyright: ignore[reportAssignmentType] (never used)

    try:
        assert db("nothing", help="holds nothing")(Nothing) is Nothing
        assert open_db("nothing", "anywhere").db_type == "nothing"
        assert DBS.help("nothing") == "holds nothing"
    finally:
        DBS.unregister("nothing")


def test_every_type_has_a_help_and_its_name_of_caffe2() -> None:
    assert [name for name in DBS if DBS.help(name) == ""] == []
    assert {"MiniDB", "ProtoDB", "LMDB", "LevelDB", "minidb", "protodb", "lmdb", "leveldb"} <= set(DBS)
