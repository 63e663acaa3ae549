"""Records from databases: CreateDB, TensorProtosDBInput.

A record is a serialized `TensorProtos`: one TensorProto for each output (an image and its label, say). N is the batch
size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from tazza.db import DBReader
from tazza.device import Event
from tazza.errors import DeadlineError, RunCancelledError, ShapeError
from tazza.operator import Array, BlobOwner, Effects, Operator, OpView, Role, arg, blob, ends, host_kernel, schema
from tazza.proto import TensorProtos
from tazza.proto.message import parse
from tazza.runtime.patience import Patience
from tazza.runtime.workers import WorkerPool
from tazza.tensor import Blob, DataType, TensorSpec
from tazza.tensor.stacked_protos import stacked_records
from tazza.tensor.tensor_proto import tensor_proto_to_array

READER = "DBReader"
Batches = deque[list[Array] | BaseException]
"""Batches, or why one could not be read."""

CREATE_DB = schema(
    "CreateDB",
    "reader = a reader over the database `db` of the kind `db_type`.",
    outputs=[blob("reader", type_name=READER)],
    args=[
        arg("db_type", str, "leveldb", doc="minidb, protodb, lmdb, leveldb"),
        arg("db", str, "", doc="path; relative ones count from the root folder of the workspace"),
        arg("num_shards", int, 1, minimum=1, doc="records are dealt out to this many readers"),
        arg("shard_id", int, 0, minimum=0, doc="which of them this reader is"),
    ],
    effects=Effects.IO,
    no_gradient=ends("a reader is no tensor"),
    source="Caffe2",
)


@host_kernel(CREATE_DB)
def create_db(op: OpView, workspace: BlobOwner, reader: Blob) -> None:
    reader.set(DBReader(op.db_type, str(workspace.root / op.db), num_shards=op.num_shards, shard_id=op.shard_id))


TENSOR_PROTOS_DB_INPUT = schema(
    "TensorProtosDBInput",
    """outputs = the next N records of a reader, stacked.

    Tensor i of every record goes to output i: (N, dims...), or (dims...) with batch_size 0. After the last record
    follows the first one, within a batch if need be. BYTE data comes out as uint8. The next batch is read while the
    net runs.""",
    inputs=[blob("reader", type_name=READER, role=Role.STATE)],
    outputs=[blob("data", dynamic=True, variadic=True)],
    args=[arg("batch_size", int, 0, minimum=0, doc="N; 0 gives one record without a batch dimension")],
    effects=Effects.IO,
    no_gradient=ends("data has no gradient"),
    source="Caffe2",
)


@TENSOR_PROTOS_DB_INPUT.infer
def tensor_protos_db_input_infer(op: OpView, reader: object) -> tuple[TensorSpec, ...]:
    del reader  # what the records hold is known only when they are read
    return tuple(TensorSpec(None, DataType.UINT8) for _ in op.output_letters)


@host_kernel(TENSOR_PROTOS_DB_INPUT)
class TensorProtosDBInput:
    """Holds one batch that a thread of its own reads ahead; it stays in `_read` until all outputs have it.

    So that an interrupt (Ctrl-C) loses none, the thread is asked to see that there is one, not for one more.
    """

    def __init__(self, operator: Operator) -> None:
        self._thread = WorkerPool(1, "tazza-db-input")
        self._reader: DBReader | None = None
        self._read: Batches = deque()
        self._patience = Patience(f"for a record of {operator.inputs[0].name!r}")

    def run(self, op: OpView, reader: Blob, data: tuple[Blob, ...]) -> None:
        source = reader.get(DBReader)
        if source is not self._reader:
            self._reader, self._read = source, deque()
        read = self._read
        if read and isinstance(read[0], DeadlineError | RunCancelledError):
            read.popleft()  # of a wait ahead of this run
        if not read:
            self._ask(source, op.batch_size, len(data)).wait()
        batch = read[0]
        if isinstance(batch, BaseException):
            read.popleft()
            raise batch
        for output, array in zip(data, batch, strict=True):
            output.put(array)
        read.popleft()
        self._ask(source, op.batch_size, len(data))

    def _ask(self, source: DBReader, batch_size: int, count: int) -> Event:
        """Let the thread read a batch if there is none; return an event that ends when there is one."""
        read, done = self._read, Event()

        def see() -> None:
            try:
                with self._patience.span():
                    if not read:
                        read.append(read_batch(source, batch_size, count, self._patience))
            except BaseException as error:
                read.append(error)
            finally:
                done.finish()

        self._thread.submit(see)
        return done

    def cancel(self) -> None:
        """Give up the wait for a record, where the reader has to wait for some."""
        self._patience.give_up()
        if self._reader is not None:
            self._reader.wake()

    def close(self) -> None:
        self.cancel()
        self._thread.close()


def read_batch(reader: DBReader, batch_size: int, count: int, patience: Patience) -> list[Array]:
    """Read `batch_size` records of `count` tensors each; returns one array (N, dims...) per tensor.

    Raises:
        ShapeError: a record holds another number of tensors, or shapes that differ within the batch.
    """
    if batch_size == 0:
        return _tensors(reader.read(patience), count)
    records = [reader.read(patience) for _ in range(batch_size)]
    whole = stacked_records([value for _, value in records], count)
    if whole is not None:
        return whole
    rows = [_tensors(record, count) for record in records]
    return [_stack(reader, [row[i] for row in rows], i) for i in range(count)]


def read_record(reader: DBReader, count: int, patience: Patience) -> list[Array]:
    """Read one record of `count` tensors."""
    return _tensors(reader.read(patience), count)


def _tensors(record: tuple[bytes, bytes], count: int) -> list[Array]:
    key, value = record
    protos = parse(TensorProtos, value, f"record {key!r}").protos
    if len(protos) != count:
        raise ShapeError(f"record {key!r} holds {len(protos)} tensors, the operator has {count} outputs")
    return [tensor_proto_to_array(proto) for proto in protos]


def _stack(reader: DBReader, rows: Sequence[Array], position: int) -> np.ndarray[Any, Any]:
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        raise ShapeError(
            f"tensor {position} has different shapes within a batch of {reader!r}: {sorted(shapes)}",
            hint="use batch_size 1",
        )
    return np.stack(rows)
