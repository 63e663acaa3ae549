"""Records of fields as values that can be queued and shuffled: PackRecords, UnPackRecords.

A field is a tensor; its name says where it stands. `ids:lengths` tells how many elements of `ids:values` each record
has, and of all that begins with `ids:` beside it; `ids:values:lengths` is one such level deeper. Record n has row n of
every field at the top, and of those under lengths as many rows as these say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from google.protobuf.message import DecodeError

from tazza.data_class import dataclass
from tazza.errors import FormatError, ShapeError
from tazza.operator import Array, Effects, OpView, Role, arg, blob, forbidden, host_kernel, schema
from tazza.ops.data.fields import Field, read_fields
from tazza.proto import TensorProtos
from tazza.tensor import Blob, Tensor
from tazza.tensor.blob import blob_type
from tazza.tensor.element_serializer import ElementSerializer
from tazza.tensor.serialization import array_to_tensor_proto, tensor_proto_to_array
from tazza.tensor.serializer import SERIALIZERS

NATIVE = "std::shared_ptr<std::vector<caffe2::Tensor>>"
PACKED = "std::shared_ptr<std::vector<TensorCPU>>"
"""What files call a record."""
NO_GRADIENT = forbidden("records are no tensor")
Record = tuple[Array, ...]
"""The rows of each field."""


@blob_type(NATIVE, serialized=PACKED)
@dataclass(frozen=True, slots=True)
class PackedRecords:
    """Records in a row; none of their arrays is written any more."""

    records: tuple[Record, ...]
    restored: bool = False
    """Whether they were read from a file: Caffe2 takes these for a row without content."""

    def __len__(self) -> int:
        return len(self.records)

    def column(self) -> Array:
        """Return the records as an array of objects, which is no part of them."""
        found = np.empty(len(self.records), object)
        for n, record in enumerate(self.records):
            found[n] = record
        return found


class PackedRecordsSerializer(ElementSerializer[PackedRecords]):
    """A record is stored as the tensors of its fields.

    Caffe2 stored that there is a record, and nothing of it. What it wrote reads as records without fields, and what is
    written here it reads as it does its own.
    """

    type_name = PACKED

    def elements(self, value: PackedRecords) -> list[bytes]:
        """Return the fields of each record."""
        return [
            TensorProtos(protos=[array_to_tensor_proto(field) for field in record]).SerializeToString()
            for record in value.records
        ]

    def joined(self, contents: Sequence[bytes], name: str) -> PackedRecords:
        """Return the records again.

        Raises:
            FormatError: one is stored as something else than tensors.
        """
        return PackedRecords(tuple(_stored_record(content, name) for content in contents), restored=True)


SERIALIZERS.register(PACKED, PackedRecordsSerializer(), help="packed records: their fields")


def _stored_record(content: bytes, name: str) -> Record:
    try:
        protos = TensorProtos.FromString(content).protos
    except DecodeError as error:
        told = f"a record of {name!r} is stored as {len(content)} bytes that are no tensors: {error}"
        raise FormatError(told) from error
    return tuple(tensor_proto_to_array(one) for one in protos)


def split(op: OpView, fields: Sequence[Field], columns: Sequence[Array]) -> Iterator[Record]:
    """Yield the records of columns, as many as the shortest field at the top has rows.

    Raises:
        ShapeError: a field has fewer rows than its lengths say; lengths are not whole numbers of rank 1.
    """
    for field, column in zip(fields, columns, strict=True):
        op.require(column.ndim > 0, f"field {field.name!r} has rank 0, a field has a row for each record at least")
        if field.counts:
            op.require(column.dtype == np.int32, f"field {field.name!r} is {column.dtype}, lengths are int32")
            op.require(column.ndim == 1, f"field {field.name!r} has rank {column.ndim}, lengths have rank 1")
            op.require(
                bool((column >= 0).all()), f"field {field.name!r} holds {column.min(initial=0)}, lengths are at least 0"
            )
    top = [len(column) for field, column in zip(fields, columns, strict=True) if field.lengths is None]
    count = min(top, default=0)
    at = [0] * len(fields)
    for _ in range(count):
        taken: dict[int, Array] = {}
        for n, (field, column) in enumerate(zip(fields, columns, strict=True)):
            rows = 1 if field.lengths is None else int(_lengths(fields, columns, taken, at, n).sum())
            if at[n] + rows > len(column):
                raise op.error(
                    ShapeError, f"field {field.name!r} has {len(column)} rows, record needs {at[n]} to {at[n] + rows}"
                )
            taken[n] = column[at[n] : at[n] + rows]
        at = [position + len(taken[n]) for n, position in enumerate(at)]
        yield tuple(np.array(taken[n]) for n in range(len(fields)))


def _lengths(
    fields: Sequence[Field], columns: Sequence[Array], taken: dict[int, Array], at: Sequence[int], n: int
) -> Array:
    """Return the lengths above field n in this record, whichever stands first in the list of fields."""
    above = fields[n].lengths
    assert above is not None, "asked for fields that stand under some"
    if above not in taken:
        rows = 1 if fields[above].lengths is None else int(_lengths(fields, columns, taken, at, above).sum())
        return columns[above][at[above] : at[above] + rows]
    return taken[above]


FIELDS = arg("fields", list[str], [], doc="a name for each field; without any they all stand at the top")

PACK_RECORDS = schema(
    "PackRecords",
    """tensor = the records of the fields X, in memory of their own.

    There are as many as the shortest field at the top has rows; rows that others have beyond that are left out.""",
    inputs=[blob("X", variadic=True)],
    outputs=[blob("tensor", type_name=PACKED)],
    args=[
        FIELDS,
        arg("pack_to_single_shared_ptr", bool, False, doc="one value that holds all records, instead of one for each"),
    ],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> packed = run("PackRecords", np.array([2, 1], np.int32), [5, 6, 7], fields=["i:lengths", "i:values"])
    >>> [[field.tolist() for field in record] for record in packed.records]
    [[[2], [5, 6]], [[1], [7]]]
    """,
)


def fields_of(op: OpView, count: int) -> tuple[Field, ...]:
    """Return the fields of an operator that has `count` of them.

    Raises:
        ShapeError: it names another number.
    """
    names: list[str] = op.fields if op.fields else [f"field {n}" for n in range(count)]
    op.require(len(names) == count, f"{len(names)} names in `fields` for {count} blobs")
    return read_fields(names)


@PACK_RECORDS.validate
def pack_records_validate(op: OpView) -> None:
    fields_of(op, len(op.definition.input))


@host_kernel(PACK_RECORDS)
def pack_records(op: OpView, X: tuple[Blob, ...], tensor: Blob) -> None:
    columns = [one.tensor().plain() for one in X]
    records = tuple(split(op, fields_of(op, len(X)), columns))
    if op.pack_to_single_shared_ptr:
        whole = tuple(np.array(column[: sum(len(record[n]) for record in records)]) for n, column in enumerate(columns))
        records = (whole,)
    tensor.set(PackedRecords(records))


UNPACK_RECORDS = schema(
    "UnPackRecords",
    """Y = the fields of the records in a row.

    `like` are the fields that were packed, or others of their types: they say what Y is where there are no records.""",
    inputs=[blob("packed_tensor", type_name=PACKED), blob("like", variadic=True, optional=True, role=Role.SHAPE)],
    outputs=[blob("Y", variadic=True)],
    args=[FIELDS],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> packed = run("PackRecords", [5.0, 6.0], [[1, 2], [3, 4]], fields=["a", "b"])
    >>> run("UnPackRecords", packed, outputs=2, fields=["a", "b"])[1].tolist()
    [[1, 2], [3, 4]]
    """,
)


@UNPACK_RECORDS.infer
def unpack_records_infer(op: OpView, packed_tensor: object, like: object) -> tuple[None, ...]:
    del packed_tensor, like  # what records hold is known when they are there
    return (None,) * len(op.output_letters)


@UNPACK_RECORDS.validate
def unpack_records_validate(op: OpView) -> None:
    count = len(op.output_letters)
    fields_of(op, count)
    given = len(op.definition.input) - 1
    op.require(given in (0, count), f"{given} blobs `like` for {count} fields")


@host_kernel(UNPACK_RECORDS)
def unpack_records(op: OpView, packed_tensor: Blob, like: tuple[Blob, ...], Y: tuple[Blob, ...]) -> None:
    records = packed_tensor.get(PackedRecords).records
    widths = {len(record) for record in records}
    hint = "Caffe2 stores no fields of a record: pack them again where they come from such a file"
    op.require(all(map(len, records)), "a record has no fields", hint)
    op.require(widths <= {len(Y)}, f"records of {sorted(widths)} fields for {len(Y)} blobs")
    hint = "give the fields that were packed as further inputs"
    op.require(bool(records) or bool(like), "there is no record, so that nobody knows what the fields are", hint)
    for n, target in enumerate(Y):
        parts = [record[n] for record in records]
        kinds = {(part.shape[1:], part.dtype) for part in parts}
        op.require(len(kinds) <= 1, f"field {n} differs from record to record: {sorted(map(str, kinds))}")
        joined = np.concatenate(parts) if parts else like[n].get(Tensor).plain()[:0]
        target.put(joined)
