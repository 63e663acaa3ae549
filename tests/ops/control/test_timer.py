"""Timers and the clock: recorded, by a clock of the test, and by the real one."""

from __future__ import annotations

import time
from itertools import count

import numpy as np
import pytest

from tazza.errors import BlobTypeError, NetError, TazzaError
from tazza.operator import operator_def, run_op
from tazza.ops.control import statistic, timer
from tazza.ops.control.statistic import StatRegistry
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences, recorded

BEGIN = operator_def("TimerBegin", [], ["t"], counter_name="c")
END, GET = operator_def("TimerEnd", ["t"], []), operator_def("TimerGet", ["t"], ["n"])
LAST = operator_def("TimerGetAndEnd", ["t"], ["n"])
NOW = operator_def("WallClockTime", [], ["now"])
NONE = np.array(0)
CASES = [
    recorded("timers"),
    Sequence(
        "while the clock stands still",
        (
            Step(NOW, {"now": np.array(7)}),
            Step(BEGIN),
            Step(GET, {"n": NONE}),
            Step(LAST, {"n": NONE.reshape(1)}),
            Step(GET, fails=NetError, text="the timer 'c' does not run"),
            Step(END, fails=NetError, text="the timer 'c' does not run"),
            Step(LAST, fails=TazzaError),
            Step(BEGIN),
            Step(END),
        ),
    ),
]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a registry of the process that knows nothing, and clocks that stand still."""
    monkeypatch.setattr(statistic, "OF_PROCESS", StatRegistry())
    monkeypatch.setattr(statistic, "wall_ns", lambda: 7)
    monkeypatch.setattr(timer, "clock_ns", lambda: 7)


@on_sequences(CASES)
def test_timers(case: Sequence) -> None:
    check_op(case)


def test_times_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(100, 10)
    monkeypatch.setattr(timer, "clock_ns", lambda: next(clock))
    home = Workspace()
    net = home.create_net(NetDef(name="n", type="simple", op=[operator_def("TimerBegin", [], ["t"]), GET, END]))
    for _ in range(3):
        net.run()
        assert home.fetch("n") == 10
    assert statistic.OF_PROCESS.export(reset=False) == {"t/time_ns/sum": 60, "t/time_ns/count": 3}
    home.run_operator(NOW)
    home.delete_net("n")


def test_a_timer_that_runs_does_not_begin() -> None:
    home = Workspace()
    net = home.create_net(NetDef(name="n", type="simple", op=[BEGIN]))
    net.run()
    with pytest.raises(NetError, match=r"(?s)the timer 'c' runs already.*hint: end it"):
        net.run()
    home.delete_net("n")


def test_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    home = Workspace()
    before = time.time_ns()
    home.run_operator(BEGIN)
    home.run_operator(NOW)
    home.run_operator(LAST)
    assert before <= home.fetch("now") <= time.time_ns()
    assert home.fetch("n")[0] > 0


def test_only_timers_are_asked() -> None:
    with pytest.raises((TazzaError, BlobTypeError), match="is a Tensor, not a"):
        run_op("TimerGet", np.array(3))
