"""Runs as futures: results, cancelling, deadlines, and that nothing is kept afterwards."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import pytest

from tazza.errors import ArgumentError, DeadlineError, KernelError, RunCancelledError
from tazza.nets.run import Run
from tazza.tensor import CPUPlace
from tests.device.host_stream import HostStream
from tests.nets.dags import PARALLEL, subject
from tests.nets.simulated import mix, watching
from tests.patience import LONG_S, wait_until

pytestmark = pytest.mark.usefixtures("device")

ALONE = [name for name in PARALLEL if name.startswith("async_") and name != "async_dag"] + ["parallel"]
"""Types whose `run_async` returns at once."""


def stopped() -> None:
    """Stand for what ends a run."""


def test_a_run_that_ends_has_no_result() -> None:
    run = Run("n")
    assert not run.wait(0)
    assert run.error is None
    run.end(None)
    assert run.wait()
    assert run.result() is None
    assert run.error is None


def test_a_run_raises_what_ended_it() -> None:
    run = Run("n")
    run.end(KernelError("planned"))
    with pytest.raises(KernelError, match="planned"):
        run.wait(LONG_S)
    assert isinstance(run.error, KernelError)


def test_a_time_out_of_its_own_is_no_time_out_of_waiting() -> None:
    run = Run("n")
    run.end(TimeoutError("planned"))
    with pytest.raises(TimeoutError, match="planned"):
        run.wait(LONG_S)


@pytest.mark.parametrize("timeout_s", [-1.0, float("nan")])
def test_timeouts_are_checked(timeout_s: float) -> None:
    with pytest.raises(ArgumentError, match="cannot run for"):
        Run("n", timeout_s)


@pytest.mark.parametrize("timeout_s", [1e10, float("inf")])
def test_timeouts_may_be_longer_than_threads_can_wait(timeout_s: float) -> None:
    run = Run("n", timeout_s)
    before = threading.active_count()
    run.start_clock(stopped)
    assert threading.active_count() == before, "nobody waits for it"
    run.end(None)
    assert run.wait(timeout_s)


def test_a_deadline_gives_a_reason_to_stop() -> None:
    run = Run("n", 0)
    assert run.left_s == 0
    assert isinstance(run.why_stop(), DeadlineError)
    with pytest.raises(DeadlineError, match=r"net 'n' did not end within 0 s"):
        run.check()


def test_cancelling_calls_each_stopper_once_and_late_ones_at_once() -> None:
    run, calls = Run("n"), list[str]()
    run.on_cancel(lambda: calls.append("early"))
    assert run.why_stop() is None
    assert run.cancel()
    run.on_cancel(lambda: calls.append("late"))
    assert calls == ["early", "late"]
    assert isinstance(run.why_stop(), RunCancelledError)
    run.end(run.why_stop())
    assert not run.cancel()
    assert not run.cancelled(), "a cancelled run holds an error, which says of which net"


def test_a_clock_stops_a_run_that_nobody_waits_for() -> None:
    run, late = Run("n", 1e-3), threading.Event()
    run.start_clock(late.set)
    assert late.wait(LONG_S)
    run.end(run.why_stop())


def test_a_clock_ends_with_its_run() -> None:
    run = Run("n a clock", 600)
    run.start_clock(stopped)

    def clocks() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "tazza-clock-n a clock" and one.is_alive()]

    while not clocks():
        os.sched_yield()
    (clock,) = clocks()
    run.end(None)
    clock.join(LONG_S)
    assert not clock.is_alive()


def test_others_wait_for_the_event_of_a_run() -> None:
    """Work of a stream behind a run: it starts when the run has ended, and not where the run has failed."""
    seen, stream = list[bool](), HostStream(CPUPlace(), 0)
    good, bad = Run("good"), Run("bad")
    stream.wait_for(good.event)
    stream.submit(lambda: seen.append(good.done()))
    assert not good.event.wait(timeout_s=0.0)
    good.end(None)
    stream.synchronize()
    assert seen == [True]
    stream.wait_for(bad.event)
    stream.submit(lambda: seen.append(False))
    bad.end(KernelError("broken"))
    with pytest.raises(KernelError, match="broken"):
        stream.synchronize()
    assert seen == [True]
    assert bad.error is bad.event.error


@pytest.mark.parametrize("type", PARALLEL)
def test_a_run_of_a_net_ends_its_event(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"])], type, 2)
    with watching():
        run = made.net.run_async()
        assert run.event.wait(timeout_s=LONG_S)
    assert run.done()
    made.net.close()


@pytest.mark.parametrize("type", ALONE)
def test_run_async_returns_before_the_run_has_ended(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"])], type, 1)
    gate = threading.Event()
    with watching() as watch:
        watch.plans["one"] = lambda: gate.wait(LONG_S)
        run = made.net.run_async()
        assert not run.done()
        assert not run.wait(1e-3)
        gate.set()
        assert run.wait(LONG_S)
    made.net.close()


@pytest.mark.parametrize("type", ["dag", "async_dag"])
def test_run_async_of_types_that_block_has_ended(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"])], type, 1)
    assert made.net.run_async().done()
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_the_error_of_an_async_run_is_the_futures(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"])], type, 1)

    def fail() -> None:
        raise KernelError("planned")

    with watching() as watch:
        watch.plans["one"] = fail
        run = made.net.run_async()
        with pytest.raises(KernelError, match="planned"):
            run.wait(LONG_S)
        watch.plans.clear()
        made.net.run_async().wait(LONG_S)
    made.net.close()


@pytest.mark.parametrize("type", ALONE)
def test_a_net_can_run_again_as_soon_as_the_future_is_done(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"])], type, 2)
    ran = threading.Event()

    def again(_: object) -> None:
        made.net.run()
        ran.set()

    run = made.net.run_async()
    run.add_done_callback(again)
    assert run.wait(LONG_S)
    assert ran.wait(LONG_S)
    made.net.close()


@pytest.mark.parametrize("type", ALONE)
@pytest.mark.parametrize("late", [False, True])
def test_nobody_runs_after_a_run_was_ended(type: str, late: bool) -> None:
    made = subject([mix(f"op{k}", ["a"] if k == 0 else [], ["a"]) for k in range(4)], type, 2)
    begun, gate = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        gate.wait(LONG_S)

    with watching() as watch:
        watch.plans["op1"] = wait
        run = made.net.run_async(timeout_s=2e-3 if late else None)
        if not late or begun.wait(1e-2):  # else the time was over before it began
            begun.wait(LONG_S)
            assert late or run.cancel()
            while run.why_stop() is None:
                time.sleep(1e-4)
            assert not run.done(), "what runs is drained first"
        gate.set()
        with pytest.raises(DeadlineError if late else RunCancelledError):
            run.wait(LONG_S)
        assert watch.order in ([], ["op0"], ["op0", "op1"])
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
@pytest.mark.parametrize("how", ["ends", "fails", "late"])
def test_a_run_that_is_kept_keeps_no_net(type: str, how: str) -> None:
    """Nor blobs, nor a thread that watches the clock."""
    made = subject([mix("one", ["a"], ["b"])], type, 1)

    def fail() -> None:
        raise KernelError("planned")

    with watching() as watch:
        if how == "fails":
            watch.plans["one"] = fail
        run = made.net.run_async(timeout_s=0 if how == "late" else 600)
        while not run.done():
            time.sleep(1e-4)
    error = run.error
    assert (error is None) == (how == "ends")
    if error is not None:
        error.__traceback__ = None  # who keeps this keeps frames
        if error.__cause__ is not None:
            error.__cause__.__traceback__ = None
        error.__context__ = None
    made.net.close()
    net = weakref.ref(made.net)
    del made, error
    wait_until(lambda: gc.collect() >= 0 and net() is None)  # a thread of the pool may not have left the run by now
