"""Iter and AtomicIter."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tazza.errors import BlobTypeError, DTypeError, NumericError, SchemaError, ShapeError
from tazza.operator import Operator, operator_def
from tazza.ops.control.mutex import Mutex
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences


def test_the_first_run_sees_1_and_a_net_goes_on() -> None:
    ws = Workspace()
    ws.create_net(NetDef(name="n", op=[operator_def("Iter", [], ["t"])]))
    ws.run_net("n")
    t = ws.fetch("t")
    ws.run_net("n", 4)
    assert (t.dtype, t.tolist(), ws.fetch("t").tolist()) == (np.int64, [1], [5])


ITER = operator_def("Iter", ["t"], ["t"])
ATOMIC = operator_def("AtomicIter", ["mutex", "t"], ["t"])
CASES = [
    Sequence(
        "goes on",
        (
            Step(operator_def("Iter", [], ["t"]), {"t": np.array([1])}),
            Step(ITER, {"t": np.array([42])}, {"t": np.array([41])}),
            Step(ITER, {"t": np.array([43])}),
            Step(ITER, {"t": np.array(8)}, {"t": np.array(7)}),
            Step(ITER, {"t": np.array([-5])}, {"t": np.array([-5])}, NumericError, "the counter stands at -5"),
        ),
        stored=True,
    ),
    Sequence(
        "with a mutex",
        (
            Step(operator_def("CreateMutex", [], ["mutex"])),
            Step(ATOMIC, {"t": np.array([6])}, {"t": np.array([5])}),
            Step(ATOMIC, {"t": np.array([7])}),
        ),
        stored=True,
    ),
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def test_runs_are_counted_by_the_process() -> None:
    ws = Workspace()
    ws.feed("counted", np.array([5]))
    ws.run_operator(operator_def("CreateMutex", [], ["mutex"]))
    export = operator_def("StatRegistryExport", [], ["keys", "values", "times"])
    ws.run_operator(export)  # and begin at 0
    for _ in range(3):
        ws.run_operator(operator_def("AtomicIter", ["mutex", "counted"], ["counted"]))
    ws.run_operator(export)
    statistics = dict(zip(ws.fetch("keys").tolist(), ws.fetch("values").tolist(), strict=True))
    assert statistics[b"atomic_iter/stats/counted/num_iter"] == 3


@pytest.mark.parametrize("inputs", [[], ["t"]])
@pytest.mark.parametrize("start", [np.array([41]), np.array(41)])
def test_it_goes_on_from_what_the_blob_holds(inputs: list[str], start: Any) -> None:
    ws = Workspace()
    ws.feed("t", start)
    ws.run_operator(operator_def("Iter", inputs, ["t"]))
    np.testing.assert_array_equal(ws.fetch("t"), start + 1)


def test_text_in_the_blob_gives_way_to_a_new_counter() -> None:
    ws = Workspace()
    ws.feed("t", "text")
    ws.run_operator(operator_def("Iter", [], ["t"]))
    assert ws.fetch("t").tolist() == [1]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (np.array([1, 2]), ShapeError, "the counter has 2 elements, it must have 1"),
        (np.zeros(0, np.int64), ShapeError, "the counter has 0 elements"),
        (np.array([1], np.int32), DTypeError, "the counter is int32, it must be int64"),
        (np.array([-5]), NumericError, "the counter stands at -5"),
        (np.array([2**63 - 1]), NumericError, "the counter stands at 9223372036854775807"),
    ],
)
def test_refused(value: Any, error: type[Exception], text: str) -> None:
    ws = Workspace()
    ws.feed("t", value)
    with pytest.raises(error, match=text):
        ws.run_operator(operator_def("Iter", [], ["t"]))


def test_it_must_be_in_place_and_an_input_must_have_a_value() -> None:
    ws = Workspace()
    ws.create_blob("t")
    with pytest.raises(SchemaError, match="output t_next = 'u' must be in place of input t = 't'"):
        ws.run_operator(operator_def("Iter", ["t"], ["u"]))
    with pytest.raises(BlobTypeError, match="blob 't' holds nullptr"):
        ws.run_operator(operator_def("Iter", ["t"], ["t"]))


def run_50_times(operator: Operator) -> None:
    for _ in range(50):
        operator.run()


def test_atomic_iter_waits_for_the_mutex() -> None:
    ws = Workspace()
    ws.run_operator(operator_def("CreateMutex", [], ["mutex"]))
    ws.feed("t", np.array([0]))
    counters = [Operator(operator_def("AtomicIter", ["mutex", "t"], ["t"]), ws) for _ in range(2)]
    with ws.blob("mutex").get(Mutex):
        threads = [threading.Thread(target=run_50_times, args=(counter,)) for counter in counters]
        for thread in threads:
            thread.start()
        assert ws.fetch("t").tolist() == [0]
    for thread in threads:
        thread.join()
    assert ws.fetch("t").tolist() == [100]


def test_atomic_iter_needs_a_mutex() -> None:
    ws = Workspace()
    ws.feed("mutex", np.zeros(1))
    ws.feed("t", np.array([0]))
    with pytest.raises(DTypeError, match="mutex = 'mutex' is a Tensor, not a std::unique_ptr<std::mutex>"):
        ws.run_operator(operator_def("AtomicIter", ["mutex", "t"], ["t"]))
