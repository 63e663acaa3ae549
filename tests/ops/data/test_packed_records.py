"""PackRecords, UnPackRecords: recorded runs, whole and split again, through queues and files, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import DTypeError, FormatError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op
from tazza.ops.data.packed_records import PACKED, PackedRecords
from tazza.proto import BlobProto, TensorProto
from tazza.tensor import DataType
from tazza.tensor.serialization import deserialize, serialize, serialize_blob
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, names, on_sequences, recorded

CASES = [recorded(name, stored=True) for name in names() if name.startswith("packed_") and name != "packed_layers"]


@on_sequences(CASES)
def test_records(case: Sequence) -> None:
    check_op(case)


def packed(columns: list[Any], **arguments: Any) -> PackedRecords:
    """Pack, and see that it is records that come out."""
    found = run_op("PackRecords", *columns, **arguments)
    assert isinstance(found, PackedRecords)
    return found


def test_each_record_has_its_rows() -> None:
    lengths, inner = np.array([2, 0, 1], np.int32), np.array([1, 3, 2], np.int32)
    columns = [np.arange(3.0), lengths, inner, np.arange(6)]
    fields = ["label", "i:lengths", "i:values:lengths", "i:values:values"]
    found = packed(columns, fields=fields)
    rows = [[field.tolist() for field in record] for record in found.records]
    assert rows == [[[0], [2], [1, 3], [0, 1, 2, 3]], [[1], [0], [], []], [[2], [1], [2], [4, 5]]]
    order = [3, 2, 1, 0]  # values before their lengths
    turned = packed([columns[n] for n in order], fields=[fields[n] for n in order])
    assert [[record[n].tolist() for n in order] for record in turned.records] == rows


def test_records_hold_memory_of_their_own() -> None:
    column = np.arange(3.0)
    found = packed([column], fields=["x"])
    column[...] = 7
    assert [record[0].tolist() for record in found.records] == [[0], [1], [2]]


def test_they_go_through_a_queue() -> None:
    workspace = Workspace()
    workspace.feed("x", np.arange(6).reshape(3, 2))
    for op in (
        operator_def("CreateBlobsQueue", [], ["q"]),
        operator_def("PackRecords", ["x"], ["p"], fields=["x"]),
        operator_def("EnqueueBlobs", ["q", "p"], ["p"]),
        operator_def("DequeueBlobs", ["q"], ["r"]),
        operator_def("UnPackRecords", ["r"], ["y"], fields=["x"]),
    ):
        workspace.run_operator(op)
    np.testing.assert_array_equal(workspace.fetch("y"), np.arange(6).reshape(3, 2))


ONE = b"\n\x00\x12'std::shared_ptr<std::vector<TensorCPU>>\"\x00"
"""A record as Caffe2 stored it, whatever was in it."""
THEIRS = BlobProto(
    name="p",
    type="Tensor",
    tensor=TensorProto(dims=[2], data_type="UNDEFINED", string_data=[ONE, ONE], name="p"),
)


def test_what_caffe2_stored_has_as_many_records_and_no_fields() -> None:
    found = deserialize(THEIRS)
    assert (found.type_name, len(found.get(PackedRecords))) == (PACKED, 2)
    assert deserialize(serialize(found, "p")).value == found.value
    with pytest.raises(ShapeError, match="a record has no fields") as told:
        run_op("UnPackRecords", found.value, fields=["x"])
    assert "Caffe2 stores no fields" in str(told.value.hint)
    untyped = BlobProto(name="p", type="Tensor", tensor=TensorProto(dims=[0], data_type="UNDEFINED"))
    empty = deserialize(untyped).tensor()
    assert (empty.shape, empty.dtype) == ((0,), DataType.FLOAT), "as Caffe2 reads it"


def test_what_is_stored_is_laid_out_as_caffe2_laid_it_out() -> None:
    stored = BlobProto.FromString(serialize(packed([np.zeros(2)], fields=["x"]), "p"))
    assert (stored.type, stored.tensor.data_type, list(stored.tensor.dims)) == ("Tensor", TensorProto.UNDEFINED, [2])
    assert [BlobProto.FromString(one).type for one in stored.tensor.string_data] == [PACKED, PACKED]
    assert (stored.tensor.segment.begin, stored.tensor.segment.end) == (0, 2)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_they_come_back_from_chunks_in_any_order(count: int) -> None:
    columns: list[Any] = [
        np.full(count, 2, np.int32),
        np.arange(4 * count, dtype=np.float16).reshape(-1, 2),
        np.array([b"\0\xff"] * count, object),
    ]
    before = packed(columns, fields=["i:lengths", "i:values", "t"])
    records = dict(serialize_blob(before, "p", 2))
    assert list(records) == [f"p#%{n}" for n in range(max(1, (count + 1) // 2))]
    after = deserialize(list(records.values())[::-1]).get(PackedRecords)
    assert len(after) == count
    for record, again in zip(before.records, after.records, strict=True):
        for field, other in zip(record, again, strict=True):
            np.testing.assert_array_equal(field, other)
            assert field.dtype == other.dtype
    if count == 5:
        with pytest.raises(FormatError, match="missing elements 2 to 4"):
            deserialize([records["p#%0"], records["p#%2"]])


@settings(max_examples=200)
@given(data=st.data())
def test_a_wrong_byte_of_a_stored_one_is_a_value_or_a_typed_error(data: st.DataObject) -> None:
    content = bytearray(serialize(packed([np.arange(3), np.zeros((3, 2))], fields=["x", "y"]), "p"))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        deserialize(bytes(content))
    except TazzaError:
        return


LENGTHS = np.array([2, 1], np.int32)
WRONG: list[tuple[list[Any], list[str], str]] = [
    ([LENGTHS, np.zeros(2)], ["i:lengths", "i:values"], "field 'i:values' has 2 rows, record needs 2 to 3"),
    ([np.zeros(())], ["x"], "has rank 0"),
    ([LENGTHS.astype(np.int64), np.zeros(3)], ["i:lengths", "i:values"], "is int64, lengths are int32"),
    ([-LENGTHS, np.zeros(3)], ["i:lengths", "i:values"], "holds -2, lengths are at least 0"),
    ([LENGTHS[None], np.zeros(3)], ["i:lengths", "i:values"], "has rank 2, lengths have rank 1"),
    ([np.zeros(3)], ["x", "y"], "2 names in `fields` for 1 blobs"),
]


@pytest.mark.parametrize(("columns", "fields", "words"), WRONG)
def test_fields_that_do_not_fit(columns: list[Any], fields: list[str], words: str) -> None:
    with pytest.raises(ShapeError, match=f"PackRecords: .*{words}"):
        packed(columns, fields=fields)


def test_records_that_do_not_fit() -> None:
    records = packed([np.zeros(2), np.zeros(2)], fields=["x", "y"])
    with pytest.raises(ShapeError, match=r"records of \[2\] fields for 1 blobs"):
        run_op("UnPackRecords", records, fields=["x"])
    with pytest.raises(ShapeError, match="1 blobs `like` for 2 fields"):
        run_op("UnPackRecords", records, np.zeros(2), outputs=2, fields=["x", "y"])
    with pytest.raises(ShapeError, match="there is no record"):
        run_op("UnPackRecords", packed([np.zeros(0)], fields=["x"]), fields=["x"])
    mixed = PackedRecords((*records.records, *packed([np.zeros((2, 3)), np.zeros(2)], fields=["x", "y"]).records))
    with pytest.raises(ShapeError, match="field 0 differs from record to record"):
        run_op("UnPackRecords", mixed, outputs=2, fields=["x", "y"])
    with pytest.raises(DTypeError, match="packed_tensor = 'in0' is a Tensor"):
        run_op("UnPackRecords", np.zeros(2), fields=["x"])
