"""CreateDB and TensorProtosDBInput: records of a database become batches."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from tazza.db import Mode, open_db
from tazza.errors import DBError, FormatError, ShapeError
from tazza.operator import operator_def
from tazza.proto import NetDef, TensorProto, TensorProtos
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences


def record(number: int, dims: tuple[int, ...] = (1, 2)) -> bytes:
    """Return a record: bytes of shape `dims`, all equal to `number`, and the number as a label."""
    data = TensorProto(dims=dims, data_type=TensorProto.BYTE, byte_data=bytes([number]) * int(np.prod(dims)))
    label = TensorProto(data_type=TensorProto.INT32, int32_data=[number])
    return TensorProtos(protos=[data, label]).SerializeToString()


def write(folder: Path, records: list[bytes], db_type: str = "minidb") -> str:
    """Write a database and return its path."""
    path = folder / f"records.{db_type}"
    with open_db(db_type, str(path), Mode.NEW) as db, db.transaction() as transaction:
        for position, value in enumerate(records):
            transaction.put(f"{position:04}", value)
    return str(path)


def stored(count: int) -> bytes:
    """Return the bytes of a database of so many records."""
    with TemporaryDirectory() as folder:
        return Path(write(Path(folder), [record(number) for number in range(count)])).read_bytes()


CREATE = Step(operator_def("CreateDB", [], ["reader"], db="records.minidb", db_type="minidb"))
READ = Step(
    operator_def("TensorProtosDBInput", ["reader"], ["data", "label"], batch_size=3),
    {"data": np.repeat(np.arange(3, dtype=np.uint8), 2).reshape(3, 1, 2), "label": np.arange(3, dtype=np.int32)},
)
CASES = [
    # Each operator has a reader of its own: two at one reader, each ahead of its net, share the records as it comes.
    Sequence("begins anew", (CREATE, READ, CREATE, READ), stored=True, files={"records.minidb": stored(4)})
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def reading(path: str, batch_size: int, db_type: str = "minidb") -> tuple[Workspace, NetDef]:
    """Return a workspace with a reader, and a net that reads a batch."""
    ws = Workspace()
    ws.run_operator(operator_def("CreateDB", [], ["reader"], db=path, db_type=db_type))
    op = operator_def("TensorProtosDBInput", ["reader"], ["data", "label"], batch_size=batch_size)
    return ws, NetDef(name="read", op=[op], external_input=["reader"])


@pytest.mark.parametrize("db_type", ["minidb", "lmdb"])
def test_batches_wrap_around(tmp_path: Path, db_type: str) -> None:
    """behaviours.md row 37: after the last record follows the first one, within a batch; BYTE becomes uint8."""
    ws, net = reading(write(tmp_path, [record(i) for i in range(3)], db_type), 2, db_type)
    ws.create_net(net)
    seen: list[list[int]] = []
    for _ in range(3):
        ws.run_net("read")
        seen.append(ws.fetch("label").tolist())
    assert seen == [[0, 1], [2, 0], [1, 2]]
    data = ws.fetch("data")
    assert (data.dtype, data.shape) == (np.uint8, (2, 1, 2))
    np.testing.assert_array_equal(data[:, 0, 0], [1, 2])
    ws.reset()


def test_batch_size_0_gives_one_record_without_a_batch_dimension(tmp_path: Path) -> None:
    """behaviours.md row 37."""
    ws, net = reading(write(tmp_path, [record(5)]), 0)
    ws.run_net_once(net)
    assert ws.fetch("data").shape == (1, 2)
    assert ws.fetch("label").shape == ()


def test_the_reader_is_no_array(tmp_path: Path) -> None:
    """behaviours.md row 37."""
    ws, _ = reading(write(tmp_path, [record(0)]), 1)
    assert ws.fetch("reader").startswith(b"reader, a C++ native class of type caffe2::db::DBReader")


def test_shapes_that_differ_within_a_batch(tmp_path: Path) -> None:
    ws, net = reading(write(tmp_path, [record(0), record(1, (1, 3))]), 2)
    with pytest.raises(ShapeError, match=r"tensor 0 has different shapes within a batch"):
        ws.run_net_once(net)


def test_another_number_of_tensors(tmp_path: Path) -> None:
    ws, net = reading(write(tmp_path, [record(0)]), 1)
    net.op[0].output.append("third")
    with pytest.raises(ShapeError, match="holds 2 tensors, the operator has 3 outputs"):
        ws.run_net_once(net)


def test_a_record_that_is_no_message(tmp_path: Path) -> None:
    ws, net = reading(write(tmp_path, [b"\xff\xff\xff"]), 1)
    with pytest.raises(FormatError, match="TensorProtos"):
        ws.run_net_once(net)


def test_a_missing_database() -> None:
    with pytest.raises(DBError, match="nowhere"):
        Workspace().run_operator(operator_def("CreateDB", [], ["reader"], db="nowhere.minidb", db_type="minidb"))


def test_paths_count_from_the_root_of_the_workspace(tmp_path: Path) -> None:
    write(tmp_path, [record(3)])
    ws = Workspace(root=tmp_path)
    ws.run_operator(operator_def("CreateDB", [], ["reader"], db="records.minidb", db_type="minidb"))
    ws.run_operator(operator_def("TensorProtosDBInput", ["reader"], ["data", "label"], batch_size=1))
    assert ws.fetch("label").tolist() == [3]


def test_two_shards_share_the_records(tmp_path: Path) -> None:
    path = write(tmp_path, [record(i) for i in range(4)])
    ws = Workspace()
    for shard in range(2):
        create = operator_def("CreateDB", [], [f"r{shard}"], db=path, db_type="minidb", num_shards=2, shard_id=shard)
        ws.run_operator(create)
        ws.run_operator(operator_def("TensorProtosDBInput", [f"r{shard}"], ["d", f"l{shard}"], batch_size=2))
    assert (ws.fetch("l0").tolist(), ws.fetch("l1").tolist()) == ([0, 2], [1, 3])
