"""CreateBlobsQueueDB: a recorded batch, records of two columns, what ends a wait, and what is refused."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tazza.db import DBReader
from tazza.errors import ClosedError, DBError, DeadlineError, DTypeError, RunCancelledError, ShapeError
from tazza.nets import create_net
from tazza.operator import operator_def
from tazza.proto import NetDef, TensorProto, TensorProtos
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

CASES = [recorded("queue_reader")]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def record(number: int) -> bytes:
    """Return a record of one number."""
    tensor = TensorProto(data_type=TensorProto.INT32, int32_data=[number])
    return TensorProtos(protos=[tensor]).SerializeToString()


def queue(columns: int = 1, **arguments: Any) -> Workspace:
    """Return a workspace with a queue, and a reader over it."""
    workspace = Workspace()
    workspace.run_operator(operator_def("CreateBlobsQueue", [], ["q"], capacity=9, num_blobs=columns))
    workspace.run_operator(operator_def("CreateBlobsQueueDB", ["q"], ["r"], **arguments))
    return workspace


def put(workspace: Workspace, *record: Any) -> None:
    """Put a record into the queue."""
    names = [f"x{i}" for i in range(len(record))]
    for name, value in zip(names, record, strict=True):
        workspace.feed(name, value)
    workspace.run_operator(operator_def("EnqueueBlobs", ["q", *names], names))


def reader(workspace: Workspace) -> DBReader:
    """Return the reader."""
    return workspace.blob("r").get(DBReader)


def test_keys_and_values_are_columns() -> None:
    """Strings, and tensors of text, of which the first counts."""
    workspace = queue(3, key_blob_index=2, value_blob_index=1)
    put(workspace, np.zeros(2, "f"), b"one", b"k1")
    put(workspace, np.zeros(2, "f"), np.array([[b"two", b"three"]], object), np.array([b"k2"], object))
    assert [reader(workspace).read() for _ in range(2)] == [(b"k1", b"one"), (b"k2", b"two")]


@pytest.mark.parametrize("type", ["simple", "async_scheduling", "plan"])
def test_a_net_reads_what_another_thread_puts(type: str) -> None:
    workspace = queue()
    read = operator_def("TensorProtosDBInput", ["r"], ["n"], batch_size=2)
    net = create_net(NetDef(name="read", type=type, op=[read], external_input=["r"]), workspace)

    def fill() -> None:
        for number in range(6):
            put(workspace, record(number))

    thread = threading.Thread(target=fill)
    thread.start()
    seen: list[list[int]] = []
    for _ in range(3):
        net.run()
        seen.append(workspace.fetch("n").tolist())
    thread.join()
    net.close()  # its thread waits for more, which must not hold anybody up
    assert seen == [[0, 1], [2, 3], [4, 5]]


def test_a_wait_ends() -> None:
    """In time, by closing, or by the end of what waits; then what comes can still be read."""
    workspace = queue(timeout_secs=0.05)
    read = operator_def("TensorProtosDBInput", ["r"], ["n"])
    net = create_net(NetDef(name="read", op=[read], external_input=["r"]), workspace)
    with pytest.raises(DeadlineError, match=r"waited 0.05 seconds for a record of 'r'"):
        net.run()
    put(workspace, record(7))
    net.run()
    assert workspace.fetch("n") == 7
    net.close()
    with pytest.raises(DeadlineError, match="for a record of the queue 'q'"):
        reader(workspace).read()
    workspace.run_operator(operator_def("CloseBlobsQueue", ["q"], []))
    with pytest.raises(ClosedError, match="the queue 'q' is closed, and empty"):
        workspace.run_operator(read)


def test_a_run_that_waits_can_be_cancelled() -> None:
    workspace = queue()
    read = operator_def("TensorProtosDBInput", ["r"], ["n"])
    net = create_net(NetDef(name="read", type="async_scheduling", op=[read], external_input=["r"]), workspace)
    run = net.run_async()
    run.cancel()
    with pytest.raises(RunCancelledError):
        run.wait(30)
    put(workspace, record(3))
    net.run()
    assert workspace.fetch("n") == 3
    net.close()


def test_what_is_stored_describes_no_queue() -> None:
    """As Caffe2's: type and source are empty; so nothing can be read from what was loaded."""
    proto = reader(queue()).to_proto("r")
    assert (proto.name, proto.db_type, proto.source, proto.HasField("key")) == ("r", "", "", False)
    with pytest.raises(DBError, match="unknown DB type ''"):
        DBReader.from_proto(proto)


def test_refused() -> None:
    with pytest.raises(ShapeError, match="column 1 of the queue 'q', which has 1"):
        queue(value_blob_index=1)
    workspace = queue()
    put(workspace, np.array([1.5]))
    with pytest.raises(DTypeError, match="a record of a reader is text"):
        reader(workspace).read()
    with pytest.raises(DBError, match="has no cursors"):
        reader(workspace).cursor()
    reader(workspace).close()
    with pytest.raises(DBError, match="after its close"):
        reader(workspace).read()
