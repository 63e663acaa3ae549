"""Ctrl-C at every place where CPython looks for signals, in every kind of run: nothing stays taken, nobody waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tazza.device import CPUContext, Event, current_stream
from tazza.errors import RunCancelledError
from tazza.interop.predictor import SEATS, Predictor
from tazza.nets import NetBase
from tazza.observers import Recorder
from tazza.operator import operator_def
from tazza.operator.definition import make_argument
from tazza.proto import NetDef, OperatorDef
from tazza.proto.message import parse_text
from tazza.runtime.threads import NUM_THREADS, threads_allowed
from tazza.tensor import CPUPlace
from tazza.workspace import Workspace
from tests.device.host_stream import HostStream
from tests.net_types import one_of_each
from tests.nets.dags import Subject, assert_same, reference, subject
from tests.nets.interrupting import FAST, SLOW, everywhere, interrupt_everywhere
from tests.nets.simulated import LINGER_S, mix, unwatched
from tests.nets.test_packed_weights import READERS, moved

pytestmark = pytest.mark.usefixtures("device")

OPS = [
    *[mix(f"op{k}", ["a"], [name]) for k, name in enumerate("bcd")],
    mix("host", ["a"], ["e"], host=True),
    mix("last", ["b", "c", "d", "e"], ["f"]),
]
AWAY = [*OPS, mix("away", ["f"], ["a"], device=0), mix("back", ["a"], ["c"])]
NET = parse_text(NetDef, 'op { type: "Relu" input: "x" output: "y" } external_input: "x"', "a test")
X = np.array([-1, 2], np.float32)


def quiet() -> None:
    """Check that nothing of a run stays with this thread."""
    assert threads_allowed() == 0
    assert current_stream(CPUPlace()) is None


def until(ended: Callable[[], bool]) -> None:
    """Wait for something that other threads bring about."""
    while not ended():
        time.sleep(1e-4)


HOWS = ("run", "timed", "async", "cancelled")


class Runs:
    """A net, the ways to run it, and what it must give afterwards."""

    def __init__(self, type: str, *, warm: bool = True) -> None:
        """Make it beside a `simple` one, which judges it."""
        ops = OPS if type in ("plan", "simple_refcount") else AWAY
        self.made, self.expected = self._subject(ops, type), reference(ops)
        for _ in range(8 if warm else 0):
            self.made.net.run()

    @staticmethod
    def _subject(ops: list[OperatorDef], type: str) -> Subject:
        return subject(ops, type, 2)

    def work(self, how: str) -> None:
        """Run once."""
        net = self.made.net
        with unwatched():
            if how == "run":
                net.run()
            elif how == "timed":
                net.run(timeout_s=600)
            elif how == "async":
                net.run_async().wait(600)
            else:
                run = net.run_async()
                run.cancel()
                try:
                    run.result(600)
                except RunCancelledError:
                    pass

    def check(self) -> None:
        """Look whether somebody is still at work, and run both once more."""
        quiet()
        until(lambda: self.made.net._owner is None)  # pyright: ignore[reportPrivateUsage] -- other threads drain it
        left = self.made.values()
        time.sleep(2 * LINGER_S)
        assert_same(self.made.values(), left)  # nobody writes behind the end of a run
        for one in (self.made, self.expected):
            one.feed(3)
            one.net.run()
        found, wanted = self.made.values(), self.expected.values()
        kept = "f" if self.made.net.definition.type in ("plan", "simple_refcount") else "abcdef"
        assert_same(found, {name: wanted[name] for name in kept})


@pytest.mark.slow
@pytest.mark.parametrize("type", ["simple", "dag", "plan"])
def test_interrupts_of_a_run(type: str, soak: int) -> None:
    runs = Runs(type)
    everywhere(lambda: runs.work("run"), runs.check, FAST, soak)
    runs.made.net.close()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "type"), list(enumerate(one_of_each())))
def test_interrupts_of_every_kind_of_run(number: int, type: str, soak: int) -> None:
    """With `--soak` each type is run in all ways."""
    for how in HOWS[number % 2 :: 2] if soak == 1 else HOWS:
        runs = Runs(type)
        everywhere(lambda how=how, runs=runs: runs.work(how), runs.check, SLOW, soak)
        runs.made.net.close()


@pytest.mark.slow
@pytest.mark.parametrize("type", one_of_each())
def test_interrupts_of_first_runs(type: str) -> None:
    """Whatever a first run prepares is there for the next one, or is prepared again."""
    op = operator_def("Scale", ["x"], ["x"], scale=2.0)
    net = NetDef(name="n", type=type, num_workers=2, op=[op], external_output=["x"])
    made = list[tuple[Workspace, NetBase]]()

    def make() -> None:
        workspace = Workspace()
        workspace.feed("x", np.ones(1, np.float32))
        made[:] = [(workspace, workspace.create_net(net))]

    def check() -> None:
        ((workspace, one),) = made
        before = workspace.fetch("x").copy()
        for _ in range(2):
            one.run()
        np.testing.assert_array_equal(workspace.fetch("x"), 4 * before)
        one.close()

    interrupt_everywhere(lambda: made[0][1].run(), check, prepare=make, most=400)


@pytest.mark.slow
@pytest.mark.parametrize("act", ["look", "feed", "shared"])
@pytest.mark.parametrize("engine", READERS)
def test_interrupts_lose_no_moved_weights(engine: str, act: str, soak: int) -> None:
    """They are what they were, or what was fed; and tensors that share them stay one."""
    made: list[tuple[Workspace, Any]] = []

    def make() -> None:
        made[:] = [moved(engine)]
        if act == "shared":
            ws = made[0][0]
            ws.create_blob("V").tensor().share(ws.blob("W").tensor())

    def work() -> None:
        ws, W = made[0]
        if act == "feed":
            ws.feed("W", -W)
        else:
            ws.blob("W").tensor().make_plain()

    def check() -> None:
        ((ws, W),) = made
        found = ws.fetch("W").copy()
        assert any(np.array_equal(found, one) for one in ((W, -W) if act == "feed" else (W,)))
        if act == "shared":
            ws.blob("V").tensor().numpy()[...] = 7
            np.testing.assert_array_equal(ws.fetch("W"), np.full_like(W, 7))

    everywhere(work, check, SLOW, soak, make)


@pytest.mark.slow
@pytest.mark.parametrize("seats", [1, 2])
def test_interrupts_of_a_predictor(seats: int, soak: int) -> None:
    """Every seat is there afterwards; in the second round somebody else keeps them, and this thread waits in line."""
    with SEATS.override(seats), Predictor(NET) as predictor:
        line = predictor._seats  # pyright: ignore[reportPrivateUsage] -- which nobody else can see

        def check() -> None:
            until(lambda: len(line.free) == len(line._all))  # pyright: ignore[reportPrivateUsage] -- as above
            assert not line.line
            assert len(line._all) <= seats  # pyright: ignore[reportPrivateUsage] -- as above
            np.testing.assert_array_equal(predictor.run(x=X)["y"], [0, 2])

        everywhere(lambda: predictor.run(x=X), check, FAST, soak)

        def occupy() -> None:
            kept = [line.free.pop() for _ in range(len(line.free))]

            def back() -> None:
                time.sleep(5e-3)
                line.give_back(kept)

            threading.Thread(target=back).start()

        everywhere(lambda: predictor.run(x=X), check, FAST, soak, occupy)


def test_interrupts_of_training_with_a_mutex(soak: int) -> None:
    ws = Workspace()
    ws.run_operator(operator_def("CreateMutex", [], ["m"]))
    ws.feed("t", np.zeros(1, np.int64))
    for type in ("simple", "dag"):
        net = ws.create_net(
            NetDef(name=f"count {type}", type=type, op=[operator_def("AtomicIter", ["m", "t"], ["t"])] * 2)
        )

        def check(net: object = net) -> None:
            before = int(ws.fetch("t")[0])
            net.run()  # pyright: ignore -- a net
            assert int(ws.fetch("t")[0]) == before + 2

        everywhere(net.run, check, FAST, soak)


@pytest.mark.slow
def test_interrupts_of_observed_runs(soak: int) -> None:
    for type in ("simple", "plan"):
        runs = Runs(type)

        def work(runs: Runs = runs) -> None:
            with Recorder(runs.made.net):
                runs.work("run")

        def check(runs: Runs = runs) -> None:
            runs.check()
            recorder = Recorder(runs.made.net)
            with recorder:
                runs.work("run")

        everywhere(work, check, FAST, soak)


@pytest.mark.slow
@pytest.mark.parametrize("type", ["simple", *(pytest.param(one, marks=pytest.mark.slow) for one in ("dag", "plan"))])
def test_interrupts_of_making_and_closing(type: str, soak: int) -> None:
    made: list[Runs] = []

    def work() -> None:
        made.clear()
        made.append(Runs(type, warm=False))
        made[0].work("run")
        made[0].made.net.close()

    def check() -> None:
        if made:
            made[0].made.net.close()
            assert made[0].made.net._ended  # pyright: ignore[reportPrivateUsage] -- nothing else tells
        Runs(type, warm=False).check()

    work()
    everywhere(work, check, FAST // 4, soak)


def test_interrupts_of_a_stream_and_its_events(soak: int) -> None:
    stream, seen = HostStream(CPUPlace(), 0), list[int]()

    def work() -> None:
        event = Event()
        stream.submit(lambda: seen.append(1))
        stream.record(event)
        event.wait()

    def check() -> None:
        stream.synchronize()
        del seen[:]
        work()
        assert seen == [1]

    everywhere(work, check, FAST, soak)


def test_interrupts_of_a_cuda_like_context(soak: int) -> None:
    with NUM_THREADS.override(2):
        ws = Workspace()
        ws.feed("a", np.ones((300, 300), np.float32))
        net = ws.create_net(
            NetDef(
                name="bounded",
                type="dag",
                num_workers=3,
                op=[operator_def("Softmax", ["a"], [name]) for name in "bcd"],
                arg=[make_argument("threads_per_operator", 1)],
            )
        )
        for _ in range(8):
            net.run()

        def check() -> None:
            quiet()
            net.run()
            assert CPUContext().key[1] == 2  # pyright: ignore -- place, threads, flags

        everywhere(net.run, check, FAST, soak)
        net.close()
