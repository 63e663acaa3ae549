"""`caffe2.python.dataset`, `record_queue` and `text_file_reader`: what is written is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import core, workspace
from caffe2.python.dataset import Const, Dataset
from caffe2.python.record_queue import RecordQueue
from caffe2.python.schema import FetchRecord, List, NewRecord, Scalar, Struct
from caffe2.python.text_file_reader import TextFileReader

FORM = Struct(("id", Scalar(np.int32)), ("values", List(Scalar(np.float32))))
IDS, LENGTHS, VALUES = np.array([5, 3, 4], "i"), np.array([2, 0, 1], "i"), np.array([1, 2, 3], "f")


@pytest.fixture(autouse=True)
def _empty() -> None:
    workspace.ResetWorkspace()


def filled() -> Dataset:
    """Return a data set with three records."""
    init, net = core.Net("init"), core.Net("write")
    made: Any = Dataset(FORM)
    made.init_empty(init)
    writer, form = made.writer(init_net=init), Dataset(FORM).schema
    with core.NameScope("new"):
        record: Any = NewRecord(net, form)
    for blob, value in zip(record.field_blobs(), (IDS, LENGTHS, VALUES), strict=True):
        workspace.FeedBlob(str(blob), value)
    writer.write_record(net, record)
    workspace.RunNetOnce(init)
    workspace.RunNetOnce(net)
    return made


def columns(made: Any) -> list[Any]:
    """Return what a data set holds, field by field."""
    return [workspace.FetchBlob(str(blob)).tolist() for blob in made.get_blobs()]


def test_what_is_written_is_there() -> None:
    made = filled()
    assert made.field_names() == ["id", "values:lengths", "values:values"]
    assert columns(made) == [[5, 3, 4], [2, 0, 1], [1, 2, 3]]
    net = core.Net("trim")
    made.trim(net, multiple_of=2)
    workspace.RunNetOnce(net)
    assert columns(made) == [[5, 3], [2, 0], [1, 2]]


def test_a_constant_is_an_input() -> None:
    net = core.Net("net")
    blob = Const(net, [1, 2], dtype=np.float32, name="two")
    assert blob in net.external_inputs
    np.testing.assert_array_equal(workspace.FetchBlob(str(blob)), np.array([1, 2], "f"))


def test_it_is_read_in_any_order() -> None:
    made, init, net, again = filled(), core.Net("init2"), core.Net("read"), core.Net("again")
    reader, random = made.reader(init, batch_size=2), made.random_reader(init, batch_size=3)
    random.computeoffset(init)
    random.sort_and_shuffle(init, "id", batch_size=3)
    stop, fields = reader.read_record(net)
    _, others = random.read_record(again)
    workspace.RunNetOnce(init)
    workspace.CreateNet(net)
    seen: list[Any] = []
    while True:
        workspace.RunNet(net)
        if workspace.FetchBlob(str(stop)):
            break
        seen.append([one.tolist() for one in FetchRecord(fields).field_blobs()])
    assert seen == [[[5, 3], [2, 0], [1, 2]], [[4], [1], [3]]]
    workspace.RunNetOnce(again)
    assert [one.tolist() for one in FetchRecord(others).field_blobs()] == [[3, 4, 5], [0, 1, 2], [3, 1, 2]]


def test_records_go_through_a_queue() -> None:
    made, init = filled(), core.Net("init2")
    reader = made.reader(init)
    workspace.RunNetOnce(init)
    queue = RecordQueue(FORM, capacity=5)
    out, fill, close, _ = queue.build(reader)
    net = core.Net("take")
    _, fields = out.read_record(net)
    plan = core.Plan("fill")
    plan.AddStep(fill)
    plan.AddStep(close)
    workspace.RunPlan(plan)
    seen: list[int] = []
    for _ in range(3):
        workspace.RunNetOnce(net)
        seen += FetchRecord(fields).field_blobs()[0].tolist()
    assert seen == IDS.tolist()


def test_rows_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("a\t1.5\nb\t2\n")
    init, net = core.Net("init"), core.Net("read")
    form = Struct(("text", Scalar(str)), ("number", Scalar(np.float32)))
    reader = TextFileReader(init, str(path), form, batch_size=5)
    stop, fields = reader.read_record(net)
    workspace.RunNetOnce(init)
    workspace.RunNetOnce(net)
    assert not workspace.FetchBlob(str(stop))
    texts, numbers = FetchRecord(fields).field_blobs()
    assert (texts.tolist(), numbers.tolist()) == (["a", "b"], [1.5, 2])
