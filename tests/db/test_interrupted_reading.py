"""Ctrl-C at every place of reading: the next read goes on, and no record is lost or comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, cycle, islice
from pathlib import Path

import numpy as np
import pytest

from tazza.db import Cursor, DBReader, Mode, open_db
from tazza.errors import UnavailableError
from tazza.operator import operator_def
from tazza.proto import NetDef, TensorProto, TensorProtos
from tazza.proto.message import serialize
from tazza.workspace import Workspace
from tests.nets.interrupting import FAST, everywhere

pytestmark = pytest.mark.filterwarnings(
    # Python's own `open`, interrupted behind its call, leaves a file to its destructor.
    "ignore:.*unclosed file:pytest.PytestUnraisableExceptionWarning",
    "ignore:unclosed file:ResourceWarning",
)
DB_TYPES = ("minidb", "protodb", "lmdb", "leveldb")
RECORDS = 7


def record(number: int) -> tuple[bytes, bytes]:
    """Return a record that any type takes."""
    name = f"{number}"
    tensor = TensorProto(name=name, dims=[2], data_type=TensorProto.INT32, int32_data=[number, -number])
    return name.encode(), serialize(tensor)


def filled(db_type: str, folder: Path, records: list[tuple[bytes, bytes]]) -> str:
    source = str(folder / db_type)
    try:
        with open_db(db_type, source, Mode.NEW) as db, db.transaction() as transaction:
            for key, value in records:
                transaction.put(key, value)
    except UnavailableError as error:
        pytest.skip(str(error))
    return source


@pytest.mark.parametrize(("shards", "shard"), [(1, 0), (3, 1)])
@pytest.mark.parametrize("db_type", DB_TYPES)
def test_interrupts_of_a_reader(db_type: str, shards: int, shard: int, tmp_path: Path, soak: int) -> None:
    records = [record(number) for number in range(RECORDS)]
    source = filled(db_type, tmp_path, records)
    with DBReader(db_type, source, shards, shard) as reader:
        ahead = cycle(records[shard::shards])

        def read() -> None:
            seen.append(reader.read())

        def check() -> None:
            read()
            assert seen == list(islice(ahead, len(seen)))
            seen.clear()

        seen: list[tuple[bytes, bytes]] = []
        for _ in range(RECORDS):  # from the last record to the first as well
            everywhere(read, check, FAST // 8, soak)


@pytest.mark.slow
@pytest.mark.parametrize("db_type", DB_TYPES)
def test_interrupts_of_opening(db_type: str, tmp_path: Path, soak: int) -> None:
    """Also what another thread has open stays usable, and the folder can be written to afterwards."""
    records = [record(number) for number in range(RECORDS)]
    source = filled(db_type, tmp_path, records)

    def work() -> None:
        with DBReader(db_type, source) as reader:
            reader.read()

    def check() -> None:
        with open_db(db_type, source) as db, db.cursor() as cursor:
            assert list(cursor) == records

    everywhere(work, check, FAST, soak)
    with open_db(db_type, source, Mode.WRITE) as db, db.transaction() as transaction:
        transaction.put(*record(RECORDS))
    records.append(record(RECORDS))
    check()


@pytest.mark.parametrize("db_type", DB_TYPES)
def test_interrupts_of_a_cursor(db_type: str, tmp_path: Path, soak: int) -> None:
    """It stands on a record, whose key and value belong together, or on none; and it can go back to the first."""
    records = [record(number) for number in range(RECORDS)]
    source = filled(db_type, tmp_path, records)

    def turn(cursor: Cursor) -> list[tuple[bytes, bytes]]:
        cursor.seek_to_first()
        return list(cursor)

    with open_db(db_type, source) as db, db.cursor() as cursor:

        def check() -> None:
            if cursor.valid:
                assert (cursor.key, cursor.value) in records
            assert turn(cursor) == records

        everywhere(lambda: turn(cursor), check, FAST, soak)


@pytest.mark.slow
# What ends the end of a transaction leaves records that nobody commits, which is told when it is deleted.
@pytest.mark.filterwarnings("ignore:records that were put into:ResourceWarning")
@pytest.mark.parametrize("db_type", ["minidb", "lmdb", "leveldb"])
def test_interrupts_of_writing(db_type: str, tmp_path: Path, soak: int) -> None:
    """Either all records of a commit are there or none, and the next one goes on."""
    source = filled(db_type, tmp_path, [record(0)])
    numbers = count(1)

    def held() -> list[tuple[bytes, bytes]]:
        with open_db(db_type, source) as db, db.cursor() as cursor:
            return list(cursor)

    def work() -> None:
        nonlocal added
        first = 2 * next(numbers)
        added = [(b"%08d" % number, b"v") for number in (first, first + 1)]
        with open_db(db_type, source, Mode.WRITE) as db, db.transaction() as transaction:
            for key, value in added:
                transaction.put(key, value)

    def check() -> None:
        nonlocal before
        for _ in range(2):
            after = held()
            assert sorted(after) in (sorted(before), sorted([*before, *added]))
            before = after
            work()
        before = held()
        assert set(added) <= set(before)

    added: list[tuple[bytes, bytes]] = []
    before = held()
    everywhere(work, check, FAST // 2, soak)


def batches(tmp_path: Path, batch: int) -> tuple[str, Iterator[list[int]]]:
    """Return a DB of pictures and labels, and the labels of its batches."""
    records: list[tuple[bytes, bytes]] = []
    for number in range(RECORDS):
        parts = [
            TensorProto(dims=[3], data_type=TensorProto.FLOAT, float_data=[number, number, number]),
            TensorProto(dims=[1], data_type=TensorProto.INT32, int32_data=[number]),
        ]
        records.append((b"%d" % number, serialize(TensorProtos(protos=parts))))
    labels = cycle(range(RECORDS))
    return filled("minidb", tmp_path, records), (list(islice(labels, batch)) for _ in count())


@pytest.mark.parametrize("type", ["simple", "dag", "plan", "async_scheduling"])
def test_interrupts_of_a_net_that_reads(type: str, tmp_path: Path, soak: int) -> None:
    """What runs that ended have read follows on each other, but for the batch that an interrupted run took."""
    source, ahead = batches(tmp_path, 2)
    ws = Workspace()
    ws.run_operator(operator_def("CreateDB", [], ["reader"], db_type="minidb", db=source))
    ops = [
        operator_def("TensorProtosDBInput", ["reader"], ["data", "label"], batch_size=2),
        operator_def("Cast", ["label"], ["wide"], to=TensorProto.FLOAT),
        operator_def("Scale", ["data"], ["twice"], scale=2.0),
    ]
    net = ws.create_net(NetDef(name="reads", type=type, num_workers=2, op=ops, external_output=["twice", "wide"]))

    def run() -> list[int]:
        net.run()
        found = [int(label) for label in ws.fetch("wide").ravel()]
        np.testing.assert_array_equal(ws.fetch("twice"), np.array([[2 * label] * 3 for label in found], np.float32))
        return found

    def work() -> None:
        nonlocal ended
        ended = False
        net.run()
        ended = True

    def check() -> None:
        wanted = next(ahead)
        found = run()
        if found != wanted:  # the interrupted run had it
            wanted = next(ahead)
        else:
            assert not ended
        assert found == wanted
        assert run() == next(ahead)

    ended = False
    for _ in range(4):
        assert run() == next(ahead)
    everywhere(work, check, FAST, soak)
    net.close()
