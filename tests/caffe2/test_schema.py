"""Records of columns: `caffe2.python.schema`, by what Caffe2 said of the same ones (`tools/record_schema.py`)."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import core, schema, workspace
from tools.record_schema import RECORDS, columns, recorded

CAFFE2: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "schema.json").read_text("utf-8"))
SPARSE = schema.Struct(("label", np.int32), ("ids", schema.ListWithEvicted(np.int64)), ("words:one", str))


@pytest.mark.slow
def test_records_are_as_in_caffe2() -> None:
    found = json.loads(json.dumps(recorded()))
    assert len(found) == len(CAFFE2) == RECORDS
    assert [one for one in zip(found, CAFFE2, strict=True) if one[0] != one[1]] == []


def pickled(one: Any) -> Any:
    """Return what comes out of a pickle."""
    return pickle.loads(pickle.dumps(one))


COPIES: list[Any] = [copy.copy, copy.deepcopy, pickled]


@pytest.mark.parametrize("copied", COPIES)
def test_copies_are_records_of_the_same_columns(copied: Any) -> None:
    made = copied(SPARSE)
    assert made == SPARSE
    assert made.ids.lengths.dtype == np.int32
    assert getattr(made, "absent", None) is None
    with pytest.raises(TypeError, match="does not change"):
        made.label = schema.Scalar()


def test_arrays_go_into_blobs_and_come_back() -> None:
    workspace.ResetWorkspace()
    arrays = [np.array([4, 5], np.int32), np.array([1, 0], np.int32), *np.array([[7], [9]]), np.array(["x", "yy"])]
    given = schema.from_blob_list(SPARSE, arrays)
    blobs = schema.NewRecord(core.Net("fed"), SPARSE)
    schema.FeedRecord(blobs, given)
    got = schema.FetchRecord(blobs)
    assert columns(got) == columns(SPARSE)
    for sent, back in zip(arrays, got.field_blobs(), strict=True):
        np.testing.assert_array_equal(sent, back)
    with pytest.raises(AssertionError, match="Expected int64, got int32"):
        schema.from_blob_list(SPARSE, [arrays[0], *arrays[:4]], throw_on_type_mismatch=True)


def test_constants_and_empty_records_are_made_by_nets() -> None:
    workspace.ResetWorkspace()
    net = core.Net("constants")
    given = schema.Struct(("a", np.array([[1.5, 2.5, 3.5]])), ("b", schema.Scalar(np.int64, [4, 5])))
    made = schema.ConstRecord(net, given)
    empty = schema.InitEmptyRecord(net, schema.Struct(("e", schema.Scalar((np.float64, (3, 2))))))
    workspace.RunNetOnce(net)
    for sent, back in zip(given.field_blobs(), schema.FetchRecord(made).field_blobs(), strict=True):
        np.testing.assert_array_equal(sent, back)
    assert workspace.FetchBlob(empty.e()).shape == (0, 3, 2)


def test_columns_are_numbered_through_the_whole_record() -> None:
    scalars = [*SPARSE.all_scalars()]
    assert [scalar.id() for scalar in scalars] == list(range(5))
    assert SPARSE.ids.slice() == slice(1, 4)


def test_nets_keep_records_of_inputs_and_outputs() -> None:
    net = core.Net("kept")
    given = net.set_input_record(schema.Struct(("x", np.float32)))
    net.set_output_record(schema.Struct(("y", net.Relu(given.x(), "y"))))
    net.AppendOutputRecordField("more", schema.Struct(("z", given.x())))
    assert net.output_record().field_names() == ["y", "more:z"]
    bound, _ = core.clone_and_bind_net(net, "bound", "bound/")
    assert bound.input_record() == net.input_record()
    recovered = core.Net("recovered")
    recovered.AddExternalInput("in/ids:lengths", "in/ids:values", "in/label")
    recovered.recover_input_record_by_prefix("in/")
    assert isinstance(recovered.input_record().ids, schema.List)


@pytest.mark.parametrize(
    ("declared", "values", "entry"),
    [
        ((np.float32, (32,)), np.zeros((5, 1, 32), np.float32), (1, 32)),
        ((np.float64, (3,)), np.zeros((5, 4), np.float32), (4,)),
        (np.int32, np.zeros((2, 3), np.int32), (3,)),
        ((np.float32, (32,)), np.zeros(5, np.float32), (32,)),
    ],
)
def test_values_say_what_an_entry_looks_like(declared: Any, values: Any, entry: tuple[int, ...]) -> None:
    """As the genuine Caffe2: the type of elements stays, values of one dimension say nothing of entries."""
    workspace.FeedBlob("entries", values)
    found = schema.FetchRecord(schema.Scalar(declared, core.BlobReference("entries")))
    assert found.field_types() == [np.dtype((np.dtype(declared).base, entry))]
    workspace.ResetWorkspace()
