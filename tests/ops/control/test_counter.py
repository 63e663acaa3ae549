"""CreateCounter, ResetCounter, CountUp, CountDown, CheckCounterDone, RetrieveCount: recorded, shared, stored."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tazza.errors import ArgumentError, BlobTypeError, DTypeError, FormatError, NumericError
from tazza.operator import operator_def, run_op
from tazza.ops.control.counter import COUNTER, FIRST, LAST, Counter
from tazza.proto import BlobProto
from tazza.tensor.serialization import deserialize, serialize
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences, recorded

TYPES = ("CountUp", "CountDown", "CheckCounterDone", "RetrieveCount", "ResetCounter")


COUNT = np.array(6)
CASES = [
    recorded("counters", stored=True),
    Sequence(
        "stored",
        (
            Step(operator_def("CreateCounter", [], ["c"], init_count=5)),
            Step(operator_def("CountUp", ["c"], ["n"]), {"n": COUNT - 1}),
            Step(operator_def("RetrieveCount", ["c"], ["n"]), {"n": COUNT}),
            Step(operator_def("CountDown", ["c"], ["done"]), {"done": np.array(False)}),
            Step(operator_def("CheckCounterDone", ["c"], ["done"]), {"done": np.array(False)}),
            Step(operator_def("ResetCounter", ["c"], ["n"], init_count=LAST), {"n": COUNT - 1}),
            Step(operator_def("CountUp", ["c"], ["n"]), fails=NumericError, text=f"stands at {LAST}"),
            Step(operator_def("RetrieveCount", ["c"], ["n"]), {"n": np.array(LAST)}),
        ),
        stored=True,
    ),
]


@on_sequences(CASES)
def test_counters(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize("type", TYPES)
def test_only_counters_are_asked(type: str) -> None:
    with pytest.raises(DTypeError, match=rf"{type}: counter = 'in0' is a Tensor, not a "):
        run_op(type, np.array(3), outputs=1)
    workspace = Workspace()
    workspace.create_blob("c")
    with pytest.raises(BlobTypeError, match="blob 'c' holds nullptr"):
        workspace.run_operator(operator_def(type, ["c"], ["y"]))


def test_it_stays_within_its_bits() -> None:
    with pytest.raises(NumericError, match=f"stands at {LAST}"):
        run_op("CountUp", Counter(LAST))
    with pytest.raises(NumericError, match=f"stands at {FIRST}"):
        run_op("CountDown", Counter(FIRST))
    with pytest.raises(ArgumentError, match="init_count"):
        run_op("CreateCounter", init_count=-1)


def test_threads_count_together() -> None:
    counter = Counter()
    seen: list[int] = []

    def count() -> None:
        for _ in range(200):
            seen.append(int(run_op("CountUp", counter)))

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(600))
    assert counter.count == 600


def test_it_is_stored_as_caffe2_stores_it() -> None:
    workspace = Workspace()
    workspace.run_operator(operator_def("CreateCounter", [], ["c"], init_count=5))
    stored = BlobProto.FromString(serialize(workspace.blob("c").value, "c"))
    assert (stored.type, list(stored.tensor.dims), list(stored.tensor.int64_data)) == (COUNTER, [1], [5])
    assert deserialize(stored.SerializeToString()).get(Counter).count == 5
    stored.tensor.int64_data.append(6)
    with pytest.raises(FormatError, match="is stored as 2 numbers"):
        deserialize(stored.SerializeToString())
