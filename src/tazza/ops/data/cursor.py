"""Places in data sets: CreateTreeCursor, ResetCursor, GetCursorOffset, ReadNextBatch.

A data set is a tree of fields (`ops.data.fields`), each a tensor X[k]. A cursor knows the fields and how many rows of
each domain were read; it is shared by all nets that see its blob, on whatever threads they run: each batch goes to one
of them. It has no place, which means the first record, until it is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tazza.errors import FormatError
from tazza.operator import Array, Effects, OpView, Role, arg, as_many, blob, forbidden, host_kernel, schema
from tazza.ops.data.fields import FIELDS, Tree, check_columns, read_tree
from tazza.runtime.holding import Held
from tazza.tensor import Blob, DataType, TensorSpec
from tazza.tensor.blob import blob_type
from tazza.tensor.serializer import SERIALIZERS, ArraySerializer

CURSOR = "std::unique_ptr<TreeCursor>"
NO_GRADIENT = forbidden("data has no gradient")


@blob_type("std::unique_ptr<caffe2::dataset_ops::TreeCursor>", serialized=CURSOR)
class TreeCursor(Held):
    """How many rows of each domain were read; nothing before the first batch.

    Behind a ReadRandomBatch `offsets` is one number, of records: so Caffe2 stores it, and so it goes on from there.
    """

    __slots__ = ("fields", "offsets")

    def __init__(self, fields: Sequence[str], offsets: Sequence[int] = ()) -> None:
        """Stand at the first record, or at `offsets`."""
        super().__init__()
        self.fields = tuple(fields)
        self.offsets = list(offsets)

    def starts(self, op: OpView, tree: Tree) -> list[int]:
        """Return the offset in each domain.

        Raises:
            ShapeError: there are others: it was read in another order, by ReadRandomBatch.
        """
        count = 1 + len(tree.counting)
        found = self.offsets if self.offsets else [0] * count
        hint = "after a ReadRandomBatch run ResetCursor first"
        op.require(len(found) == count, f"the cursor has {len(found)} offsets, its fields have {count} domains", hint)
        return found


class TreeCursorSerializer(ArraySerializer[TreeCursor]):
    """Stores the offsets, and each field's name with a space behind it."""

    type_name = CURSOR

    def encode(self, value: TreeCursor) -> tuple[Array, bytes]:
        wrong = [name for name in value.fields if " " in name]
        if wrong:
            told = f"a cursor over the field {wrong[0]!r} cannot be stored: there a space ends a name"
            raise FormatError(told, hint="name the fields without spaces")
        content = "".join(f"{name} " for name in value.fields)
        return np.array(value.offsets, np.int64), content.encode(errors="surrogateescape")

    def decode(self, array: Array, content: bytes, name: str) -> TreeCursor:
        if array.dtype != np.int64 or array.ndim != 1 or ((array < 0) | (array > np.iinfo(np.int32).max)).any():
            raise FormatError(f"cursor {name!r} is stored with offsets {array!r}")
        return TreeCursor(content.decode(errors="surrogateescape").split(" ")[:-1], array.tolist())


SERIALIZERS.register(CURSOR, TreeCursorSerializer(), help="a cursor: its offsets and its fields")

ON_CURSOR = blob("cursor", type_name=CURSOR, role=Role.STATE)
COLUMNS = blob("X", variadic=True, role=Role.DATA, doc="the fields, in the order of the cursor")
BATCH = blob("Y", variadic=True, dynamic=True, doc="rows of each field, in memory of their own")
BATCH_SIZE = arg("batch_size", int, 1, minimum=0, doc="records")
ENFORCE = arg("enforce_batch_size", bool, False, doc="records at the end that are fewer than batch_size are left out")

CREATE_TREE_CURSOR = schema(
    "CreateTreeCursor",
    """cursor = a new cursor over these fields, at the first record.

    A blob that has something in it already is given the new cursor instead.""",
    outputs=[blob("cursor", type_name=CURSOR)],
    args=[FIELDS],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("CreateTreeCursor", fields=["ids:lengths", "ids:values"]).fields
    ('ids:lengths', 'ids:values')
    """,
)


@CREATE_TREE_CURSOR.validate
def create_tree_cursor_validate(op: OpView) -> None:
    read_tree(op, op.fields)


@host_kernel(CREATE_TREE_CURSOR)
def create_tree_cursor(op: OpView, cursor: Blob) -> None:
    cursor.set(TreeCursor(op.fields))


RESET_CURSOR = schema(
    "ResetCursor",
    "The cursor stands at the first record again.",
    inputs=[ON_CURSOR],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> cursor = run("CreateTreeCursor", fields=["x"])
    >>> _ = run("ReadNextBatch", cursor, [1.0, 2.0])
    >>> _ = run("ResetCursor", cursor)
    >>> cursor.offsets
    []
    """,
)


@host_kernel(RESET_CURSOR)
def reset_cursor(cursor: Blob) -> None:
    place = cursor.get(TreeCursor)
    with place:
        place.offsets = []


GET_CURSOR_OFFSET = schema(
    "GetCursorOffset",
    "offsets = how many rows of each domain were read; none before the first batch.",
    inputs=[ON_CURSOR],
    outputs=[blob("offsets", DataType.INT32, "D", dynamic=True, host=True)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> cursor = run("CreateTreeCursor", fields=["ids:lengths", "ids:values"])
    >>> _ = run("ReadNextBatch", cursor, np.array([2, 1], np.int32), [7, 8, 9], outputs=2)
    >>> run("GetCursorOffset", cursor)
    array([1, 2], dtype=int32)
    """,
)


@GET_CURSOR_OFFSET.infer
def get_cursor_offset_infer(op: OpView, cursor: object) -> TensorSpec:
    del op, cursor
    return TensorSpec((None,), DataType.INT32)


@host_kernel(GET_CURSOR_OFFSET)
def get_cursor_offset(cursor: Blob, offsets: Blob) -> None:
    offsets.tensor().assign(np.array(cursor.get(TreeCursor).offsets, np.int32))


READ_NEXT_BATCH = schema(
    "ReadNextBatch",
    """Y = the rows of the next `batch_size` records, of each field, or of as many as there are.

    How many records there are is what the shortest field at the top tells.""",
    inputs=[ON_CURSOR, COLUMNS],
    outputs=[BATCH],
    relations=[as_many("Y", "X")],
    args=[BATCH_SIZE, ENFORCE],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> cursor = run("CreateTreeCursor", fields=["x"])
    >>> [run("ReadNextBatch", cursor, [5, 6, 7], batch_size=2).tolist() for _ in range(3)]
    [[5, 6], [7], []]
    """,
)


@READ_NEXT_BATCH.infer
def read_next_batch_infer(op: OpView, cursor: object, X: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    del op, cursor
    return rows_of(X)


def rows_of(X: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return the specs of some rows of each field."""
    return tuple(TensorSpec(None if one.dims is None else (None, *one.dims[1:]), one.dtype) for one in X)


def opened(op: OpView, cursor: Blob, X: Sequence[Blob]) -> tuple[TreeCursor, Tree, list[Array]]:
    """Return a cursor, its tree, and the elements of its fields.

    Raises:
        ArgumentError, ShapeError: there is no such tree; the fields do not fit it.
    """
    place, columns = cursor.get(TreeCursor), [one.tensor().plain() for one in X]
    tree = read_tree(op, place.fields)
    check_columns(op, tree, columns)
    return place, tree, columns


@host_kernel(READ_NEXT_BATCH)
def read_next_batch(op: OpView, cursor: Blob, X: tuple[Blob, ...], Y: tuple[Blob, ...]) -> None:
    place, tree, columns = opened(op, cursor, X)
    with place:
        span = tree.span(op, columns, place.starts(op, tree), op.batch_size)
        place.offsets = span.ends
    short = op.enforce_batch_size and span.rows[0] < op.batch_size
    for target, column, domain in zip(Y, columns, tree.domains, strict=True):
        start = span.starts[domain]
        target.put(column[start : start if short else start + span.rows[domain]])
