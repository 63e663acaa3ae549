"""Readers, writers and queues of batches: `caffe2.python.dataio` and `queue_util`, run by plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from caffe2.python import core, dataio, queue_util, schema, workspace

FORM = schema.Struct(("number", np.int64))


class Numbers(dataio.Reader):
    """Counts down from a number; 0 is the last."""

    def __init__(self, name: str, batches: int) -> None:
        super().__init__(FORM)
        self.name, self.batches = name, batches
        self.left: Any = None

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        self.left = init_net.CreateCounter([], [f"{self.name}_left"], init_count=self.batches)
        init_net.ConstantFill([], [f"{self.name}_stop"], shape=[], value=False, dtype=core.DataType.BOOL)

    def read(self, read_net: Any) -> tuple[Any, Any]:
        stop = read_net.CountDown([self.left], [f"{self.name}_stop"])
        return stop, [read_net.RetrieveCount([self.left], [f"{self.name}_number"])]


@pytest.fixture(autouse=True)
def empty_workspace() -> None:
    workspace.ResetWorkspace()


def told(reader: dataio.Reader, batches: str) -> int:
    """Run a reader to its end; returns how many batches were read."""
    before, behind = core.Net("before"), core.Net("behind")
    reader.setup_ex(before, behind)
    before.CreateCounter([], [batches])
    nets, stop, record = reader.read_record_ex(before, behind)
    assert record.field_names() == reader.schema().field_names()
    count = core.Net("count")
    count.CountUp([batches], 1)
    plan = core.Plan("reading")
    plan.AddStep(core.execution_step("before", before))
    plan.AddStep(core.execution_step("read", [*nets, count], should_stop_blob=stop))
    plan.AddStep(core.execution_step("behind", behind))
    workspace.RunPlan(plan)
    after = core.Net("after")
    after.RetrieveCount([batches], ["read"])
    workspace.RunNetOnce(after)
    return int(workspace.FetchBlob("read"))


@pytest.mark.parametrize(
    ("limit", "batches", "finished"), [(3, 3, False), (0, 0, False), (9, 5, True), (None, 5, True)]
)
def test_a_limit_ends_the_reading(limit: int | None, batches: int, finished: bool) -> None:
    reader = dataio.ReaderWithLimit(Numbers("a", 5), limit)
    assert told(reader, "batches") == batches
    assert bool(workspace.FetchBlob(reader.data_finished())) == finished


def test_the_first_reader_that_ends_ends_all() -> None:
    assert told(dataio.CompositeReader(["p", "q"], [Numbers("p", 2), Numbers("q", 7)]), "batches") == 2
    assert int(workspace.FetchBlob("q_number")) == 5
    assert told(dataio.CompositeReader(["p", "q"], [Numbers("p", 7), Numbers("q", 2)]), "batches") == 2


def test_a_reader_counts() -> None:
    assert told(dataio.CountUntil(4), "batches") == 4
    assert told(dataio.ReaderWithDelay(Numbers("slow", 2), 0.001), "batches") == 2


def test_batches_go_through_a_queue_to_the_last() -> None:
    """A step writes what another one reads, side by side; what was written is read, in order."""
    queue = queue_util.Queue(2, schema=FORM)
    source = Numbers("source", 6)
    before, behind = core.Net("before"), core.Net("behind")
    queue.setup(before)
    source.setup_ex(before, behind)
    before.GivenTensorInt64Fill([], ["all"], shape=[0], values=[])
    writer, reader = queue.writer(), queue.reader()
    writer.setup_ex(before, behind)
    read, stop, record = source.read_record_ex(before, behind)
    write, closed = writer.write_record_ex(record, before, behind)
    taken, end, batch = reader.read_record_ex(before, behind)
    assert (queue.num_readers(), queue.num_writers()) == (1, 1)
    keep = core.Net("keep")
    one = keep.Reshape([batch.number()], ["one", "shape"], shape=[1])[0]
    keep.Copy(keep.Concat(["all", one], ["joined", "parts"], axis=0)[0], "all")
    produce = core.execution_step("produce", [*read, *write], should_stop_blob=stop)
    consume = core.execution_step("consume", [*taken, keep], should_stop_blob=end)
    both = [queue_util.close_queue(produce, queue.queue()), consume]
    plan = core.Plan("queue")
    plan.AddStep(core.execution_step("before", before))
    plan.AddStep(core.execution_step("both", both, concurrent_substeps=True))
    workspace.RunPlan(plan)
    assert isinstance(closed, str)
    assert workspace.FetchBlob("all").tolist() == [5, 4, 3, 2, 1, 0]


def test_what_is_not_said_is_refused() -> None:
    with pytest.raises(AssertionError, match="does not have a schema"):
        queue_util.Queue(1).setup(core.Net("none"))
    with pytest.raises(AssertionError, match="Schema not provided"):
        dataio.Reader().schema()
    with pytest.raises(NotImplementedError, match="must implement `read`"):
        dataio.Reader(FORM).read_ex(None, None)
