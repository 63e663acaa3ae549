"""CreateTreeCursor, ResetCursor, GetCursorOffset, ReadNextBatch.

Recorded sequences, a data set that is read whole by threads, what is stored of a cursor, and what does not fit.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError, DTypeError, FormatError, SchemaError, ShapeError
from tazza.operator import run_op
from tazza.ops.data.cursor import TreeCursor
from tazza.proto import BlobProto
from tazza.tensor.serialization import deserialize, serialize
from tests.check import check_op
from tests.sequences import Sequence, names, on_sequences, recorded

CASES = [recorded(name, stored=True) for name in names() if name.startswith("cursor_")]


@on_sequences(CASES)
def test_cursors(case: Sequence) -> None:
    check_op(case)


LENGTHS = np.array([2, 0, 1, 3], np.int32)
LISTS = ["i:lengths", "i:values"]


def cursor_of(*fields: str) -> TreeCursor:
    """Return a new cursor."""
    found = run_op("CreateTreeCursor", fields=list(fields))
    assert isinstance(found, TreeCursor)
    return found


def test_threads_share_a_data_set() -> None:
    """Every record goes to one of them, with its own rows."""
    lengths = np.arange(50, dtype=np.int32) % 4
    values = np.repeat(np.arange(50), lengths)
    cursor, seen = cursor_of(*LISTS, "n"), list[tuple[Any, ...]]()

    def read() -> None:
        while True:
            some, rows, n = run_op("ReadNextBatch", cursor, lengths, values, np.arange(50), outputs=3, batch_size=3)
            if not len(n):
                return
            seen.append((n.tolist(), some.tolist(), rows.tolist()))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for numbers, _, _ in seen for n in numbers) == list(range(50))
    assert all(rows == np.repeat(numbers, some).tolist() for numbers, some, rows in seen)


def test_a_batch_is_memory_of_its_own() -> None:
    column = np.arange(3.0)
    found = run_op("ReadNextBatch", cursor_of("x"), column, batch_size=2)
    column[...] = 7
    assert found.tolist() == [0, 1]


def test_where_it_stands() -> None:
    cursor = cursor_of(*LISTS)
    assert run_op("GetCursorOffset", cursor).tolist() == []
    run_op("ReadNextBatch", cursor, LENGTHS, np.zeros(6), outputs=2, batch_size=3)
    assert run_op("GetCursorOffset", cursor).tolist() == [3, 3]
    run_op("ResetCursor", cursor)
    assert cursor.offsets == []


STORED = (
    b"\n\x03cur\x12\x1bstd::unique_ptr<TreeCursor>\x1a\x11\x08\x01\x10\nB\x02\x08\x00R\x01\x06Z\x04\x08\x00\x10\x01"
    b'"\x09a b c:d: '
)
"""What Caffe2 stores of a cursor at record 6."""


def test_what_is_stored() -> None:
    cursor = deserialize(STORED).get(TreeCursor)
    assert (cursor.fields, cursor.offsets) == (("a", "b", "c:d:"), [6])
    ours, theirs = BlobProto.FromString(serialize(cursor, "cur")), BlobProto.FromString(STORED)
    assert (ours.content, ours.type, ours.tensor.int64_data) == (theirs.content, theirs.type, theirs.tensor.int64_data)
    theirs.tensor.int64_data[0] = -1
    with pytest.raises(FormatError, match="cursor 'cur' is stored with offsets"):
        deserialize(theirs.SerializeToString())


WRONG: list[tuple[list[str], list[Any], type[Exception], str]] = [
    (LISTS, [LENGTHS, np.zeros(5)], ShapeError, "'i:lengths' reaches to row 6, its fields have 5"),
    (LISTS, [-LENGTHS, np.zeros(6)], ShapeError, "field 'i:lengths' holds -3, lengths are at least 0"),
    (LISTS, [LENGTHS.astype(np.int64), np.zeros(6)], DTypeError, "field 'i:lengths' is int64, lengths are int32"),
    (LISTS, [LENGTHS], ShapeError, "1 blobs for 2 fields"),
    (["x"], [np.array(3.0)], ShapeError, "field 'x' has rank 0"),
]


@pytest.mark.parametrize(("fields", "columns", "error", "words"), WRONG)
def test_fields_that_do_not_fit(fields: list[str], columns: list[Any], error: type[Exception], words: str) -> None:
    for type in ("ReadNextBatch", "ComputeOffset"):
        cursor = cursor_of(*fields)
        outputs = len(columns) if type == "ReadNextBatch" else 1
        arguments: dict[str, Any] = {"batch_size": 4} if type == "ReadNextBatch" else {}
        with pytest.raises(error, match=f"{type}: .*{words}"):
            run_op(type, cursor, *columns, outputs=outputs, **arguments)
        assert cursor.offsets == []


NAME = st.binary(max_size=6).map(lambda name: name.decode(errors="surrogateescape"))


@given(st.lists(NAME, min_size=1, max_size=4, unique=True))
def test_a_cursor_comes_back_whatever_its_fields_are_called(fields: list[str]) -> None:
    """Or it is not stored: a space ends a name."""
    cursor = TreeCursor(fields, [3])
    if any(" " in name for name in fields):
        with pytest.raises(FormatError, match="a space ends a name"):
            serialize(cursor, "c")
        return
    again = deserialize(serialize(cursor, "c")).get(TreeCursor)
    assert (again.fields, again.offsets) == (tuple(fields), [3])


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"field 0, 'i:values', stands before its lengths, 'i:lengths'"):
        cursor_of(*LISTS[::-1])
    with pytest.raises(ArgumentError, match="batch_size"):
        run_op("ReadNextBatch", cursor_of("x"), np.zeros(3), batch_size=-1)
    with pytest.raises(SchemaError, match="there are 1 Y for 2 X"):
        run_op("ReadNextBatch", cursor_of("x", "y"), np.zeros(3), np.zeros(3), outputs=1)
    with pytest.raises(ShapeError, match="the cursor has 1 offsets, its fields have 2 domains"):
        run_op("ReadNextBatch", TreeCursor(LISTS, [3]), LENGTHS, np.zeros(6), outputs=2)
