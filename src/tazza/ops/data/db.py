"""Records from databases: CreateDB, TensorProtosDBInput.

A record is a serialized `TensorProtos`: one TensorProto for each output (an image and its label, say). N is the batch
size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tazza.db import DBReader
from tazza.errors import ShapeError
from tazza.operator import Array, BlobOwner, Effects, Operator, OpView, Role, arg, blob, ends, host_kernel, schema
from tazza.ops.data.read_ahead import ReadAhead
from tazza.proto import TensorProtos
from tazza.proto.message import parse
from tazza.runtime.patience import Patience
from tazza.tensor import Blob, DataType, TensorSpec
from tazza.tensor.stacked_protos import stacked_records
from tazza.tensor.tensor_proto import tensor_proto_to_array

READER = "DBReader"

CREATE_DB = schema(
    "CreateDB",
    "reader = a reader over the database `db` of the kind `db_type`.",
    outputs=[blob("reader", type_name=READER)],
    args=[
        arg("db_type", str, "leveldb", doc="minidb, protodb, lmdb, leveldb"),
        arg("db", str, "", doc="path; relative ones count from the root folder of the workspace"),
        arg("num_shards", int, 1, minimum=1, doc="records are dealt out to this many readers"),
        arg("shard_id", int, 0, minimum=0, doc="which of them this reader is"),
        arg("endless", bool, False, doc="deal out the records of all rounds in a row, not those of each round anew"),
    ],
    effects=Effects.IO,
    no_gradient=ends("a reader is no tensor"),
    source="Caffe2",
)


@host_kernel(CREATE_DB)
def create_db(op: OpView, workspace: BlobOwner, reader: Blob) -> None:
    path = str(workspace.root / op.db)
    reader.set(DBReader(op.db_type, path, op.num_shards, op.shard_id, endless=op.endless))


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
    """Puts out batches that are read ahead."""

    def __init__(self, operator: Operator) -> None:
        self._ahead: ReadAhead[list[Array]] = ReadAhead(
            "tazza-db-input", f"for a record of {operator.inputs[0].name!r}"
        )

    def run(self, op: OpView, reader: Blob, data: tuple[Blob, ...]) -> None:
        def read(source: DBReader, patience: Patience) -> list[Array]:
            return read_batch(source, op.batch_size, len(data), patience)

        for output, array in zip(data, self._ahead.batch(reader.get(DBReader), read), strict=True):
            output.put(array)
        self._ahead.was_taken(read)

    def cancel(self) -> None:
        self._ahead.cancel()

    def close(self) -> None:
        self._ahead.close()


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
