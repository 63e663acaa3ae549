"""The executor where it is delicate: ends, errors, interrupts, threads that are not to be had, nets in nets."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from tazza.errors import BlobTypeError, KernelError, NetError, TazzaError
from tazza.nets.executor.execution import Execution
from tazza.nets.parallel import ParallelNet
from tazza.operator import (
    ANY,
    KERNELS,
    SCHEMAS,
    Operator,
    blob,
    ends,
    host_kernel,
    kernel_key,
    operator_def,
    schema,
)
from tazza.ops.control.python_function import forget_python, register_python
from tazza.proto import NetDef
from tests.nets.dags import PARALLEL, assert_same, reference, subject
from tests.nets.simulated import mix, watching
from tests.patience import LONG_S

pytestmark = pytest.mark.usefixtures("device")

WIDE = [mix(f"op{k}", ["a"], [name]) for k, name in enumerate("bcdef")]
DIAMOND = [*WIDE[:4], mix("last", ["b", "c", "d", "e"], ["f"])]


# -- the end of a run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", PARALLEL)
def test_a_run_has_ended_when_it_returns(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when the thread that ends the run is slow to say so."""
    finish = Execution._finish  # pyright: ignore[reportPrivateUsage] -- where the race was

    def slow(execution: Execution) -> None:
        time.sleep(1e-3)
        finish(execution)

    monkeypatch.setattr(Execution, "_finish", slow)
    made, expected = subject(DIAMOND, type, 2), reference(DIAMOND)
    expected.net.run()
    for _ in range(8):
        made.net.run()
        assert_same(made.values(), expected.values())
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
@pytest.mark.parametrize("place", [None, 0])
def test_nobody_writes_after_a_run_has_raised(type: str, place: int | None) -> None:
    """The others that run at the first error are waited for; those that were not begun never begin."""
    ops = [mix("slow", ["a"], ["b"], device=place), mix("bad", ["a"], ["c"]), mix("next", ["b", "c"], ["d"])]
    made = subject(ops, type, 2)
    begun, failed = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        failed.wait(LONG_S)
        time.sleep(2e-3)

    def fail() -> None:
        begun.wait(LONG_S)
        failed.set()
        raise KernelError("planned")

    with watching() as watch:
        watch.plans.update(slow=wait, bad=fail)
        with pytest.raises(KernelError, match="planned"):
            made.net.run()
        assert watch.running == 0
        assert watch.order == ["slow"]
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_what_was_queued_before_an_error_is_waited_for(type: str) -> None:
    """The second operator of a task fails while the device works on the first."""
    ws = subject([], type, 2).ws
    ws.create_blob("empty")
    both = [mix("slow", ["a"], ["b"], device=0), mix("bad", ["b", "empty"], ["c"], device=0)]
    net = ws.create_net(NetDef(name="both", type=type, num_workers=2, op=both))
    with watching() as watch:
        watch.plans["slow"] = lambda: time.sleep(2e-3)
        with pytest.raises(BlobTypeError, match="'empty' has no value"):
            net.run()
        assert watch.running == 0
        assert watch.order == ["slow"]
    net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_the_first_error_says_operator_thread_and_progress(type: str) -> None:
    made = subject([mix("good", ["a"], ["b"]), mix("also", ["b"], ["c"]), mix("bad", ["b"], ["d"])], type, 1)

    def fail() -> None:
        raise KernelError("planned")

    with watching() as watch:
        watch.plans["bad"] = fail
        with pytest.raises(KernelError) as caught:
            made.net.run()
    text = str(caught.value)
    assert "TestMix 'bad'(b -> d) (operator 2 of net 'dag')" in text
    assert f"on thread {threading.current_thread().name!r}" in text
    assert "stopped after" in text
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_what_escapes_from_a_host_kernel_is_a_failure_of_it_and_says_the_thread(type: str) -> None:
    made = subject([mix("bad", ["a"], ["b"], host=True), mix("good", ["a"], ["c"])], type, 2)

    def fail() -> None:
        raise ZeroDivisionError("planned")

    with watching() as watch:
        watch.plans["bad"] = fail
        with pytest.raises(KernelError, match=r"ZeroDivisionError: planned\n.*'bad'(.|\n)*on thread"):
            made.net.run()
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_what_a_function_of_the_user_raises_keeps_its_type_and_says_the_thread(type: str) -> None:
    def fail(inputs: object, outputs: object) -> None:
        raise ZeroDivisionError("planned")

    token = register_python(fail)
    try:
        made = subject([operator_def("Python", ["a"], ["b"], token=token), mix("good", ["a"], ["c"])], type, 2)
        with pytest.raises(ZeroDivisionError, match="planned") as caught:
            made.net.run()
        made.net.close()
    finally:
        forget_python(token)
    assert any("on thread" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("type", PARALLEL)
def test_of_two_errors_one_is_raised(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"]), mix("two", ["a"], ["c"])], type, 2)
    met = threading.Barrier(2, timeout=LONG_S)

    def fail() -> None:
        met.wait()
        raise KernelError("planned")

    with watching() as watch:
        watch.plans.update(one=fail, two=fail)
        with pytest.raises(KernelError, match="planned"):
            made.net.run()
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_a_stream_that_failed_serves_other_nets(type: str) -> None:
    """A pool has 32 streams: what failed on one must not come back in the runs of others that get it."""
    made = subject([mix("bad", ["a"], ["b"], device=0)], type, 2)
    others = [subject([mix("good", ["a"], ["b"], device=0)], type, 2) for _ in range(33)]

    def fail() -> None:
        raise KernelError("planned")

    with watching() as watch:
        watch.plans["bad"] = fail
        with pytest.raises(KernelError, match="planned"):
            made.net.run()
        for other in others:
            other.net.run()
        watch.plans.clear()
        made.net.run()
    for one in (made, *others):
        one.net.close()


# -- threads that are not to be had ------------------------------------------------------------------------------------


def no_threads(_: object) -> None:
    """Stand for `submit` in a process that has no room for threads."""
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("type", PARALLEL)
def test_the_calling_thread_runs_all_where_there_are_no_others(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [*DIAMOND, mix("away", ["f"], ["a"], device=0), mix("back", ["a"], ["c"])]
    made, expected = subject(ops, type, 4), reference(ops)
    made.net.run()  # threads of streams are there
    expected.net.run()
    assert isinstance(made.net, ParallelNet)
    for pool in made.net._pools.values():  # pyright: ignore[reportPrivateUsage] -- there is no public way to them
        monkeypatch.setattr(pool, "submit", no_threads)
    for _ in range(3):
        made.net.run()
        expected.net.run()
        assert_same(made.values(), expected.values())
    monkeypatch.undo()
    made.net.close()


# -- waiting operators -------------------------------------------------------------------------------------------------


@dataclass
class Waiting:
    """Counts what happened to a host kernel that waits."""

    began: threading.Event
    cancelled: threading.Event
    cancels: int = 0


WAITING = Waiting(threading.Event(), threading.Event())


@pytest.fixture
def waiting() -> Generator[Waiting]:
    """Have an operator `TestWait` that waits until it is cancelled."""
    made = schema("TestWait", "Waits.", inputs=[blob("X")], outputs=[blob("Y", like="X")], no_gradient=ends("a test"))

    class Wait:
        """A kernel that waits."""

        def __init__(self, operator: Operator) -> None:
            """Wait at first."""

        def run(self, X: Any, Y: Any) -> None:
            """Wait."""
            WAITING.began.set()
            assert WAITING.cancelled.wait(LONG_S)
            raise KernelError("gave up")

        def cancel(self) -> None:
            """Give up."""
            WAITING.cancels += 1
            WAITING.cancelled.set()

    host_kernel(made)(Wait)
    WAITING.began, WAITING.cancelled, WAITING.cancels = threading.Event(), threading.Event(), 0
    yield WAITING
    SCHEMAS.unregister("TestWait")
    KERNELS.unregister(kernel_key("TestWait", "reference", ANY))


@pytest.mark.parametrize("type", PARALLEL)
def test_an_operator_that_waits_is_told_of_the_first_error(type: str, waiting: Waiting) -> None:
    made = subject([operator_def("TestWait", ["a"], ["b"]), mix("bad", ["a"], ["c"])], type, 2)

    def fail() -> None:
        assert waiting.began.wait(LONG_S)
        raise KernelError("planned")

    with watching() as watch:
        watch.plans["bad"] = fail
        with pytest.raises(KernelError, match="planned"):
            made.net.run()
    assert waiting.cancels == 1
    made.net.close()


def test_a_run_that_waits_can_be_cancelled_and_that_reaches_no_later_run(waiting: Waiting) -> None:
    made = subject([operator_def("TestWait", ["a"], ["b"])], "async_scheduling", 1)
    run = made.net.run_async()
    assert waiting.began.wait(LONG_S)
    assert run.cancel()
    with pytest.raises(TazzaError, match="was cancelled"):
        run.wait()
    assert not run.cancel()
    assert waiting.cancels == 1
    made.net.close()


def test_an_operator_that_cannot_be_cancelled_holds_nobody_up(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(operator: Operator) -> None:
        waiting.cancelled.set()
        raise ValueError("no way")

    made = subject([operator_def("TestWait", ["a"], ["b"])], "async_scheduling", 1)
    monkeypatch.setattr(Operator, "cancel", broken)
    run = made.net.run_async()
    assert waiting.began.wait(LONG_S)
    with caplog.at_level(logging.CRITICAL + 1):
        run.cancel()
        with pytest.raises(TazzaError, match="was cancelled"):
            run.wait()
    made.net.close()


def test_small_operators_run_beside_one_that_waits() -> None:
    """However little they take: what the first one waits for may depend on them."""
    ops = [mix("small", ["a"], ["b"]), mix("waits", ["a"], ["c"], host=True), mix("also", ["b", "c"], ["d"])]
    made = subject(ops, "async_scheduling", 2)
    with watching() as watch:
        for _ in range(12):
            made.net.run()
        ran = threading.Event()
        watch.plans.update(small=ran.set, waits=lambda: ran.wait(LONG_S) or pytest.fail("nobody ran beside it"))
        for _ in range(3):
            ran.clear()
            made.net.run()
    made.net.close()


# -- nets in nets, threads, processes ----------------------------------------------------------------------------------


@pytest.fixture
def runner() -> Generator[list[Callable[[], object]]]:
    """Have a host operator `TestCall`, on the CPU and the device, that calls the function that is put into the list."""
    made = schema("TestCall", "Calls.", inputs=[blob("X")], outputs=[blob("Y", like="X")], no_gradient=ends("a test"))
    function: list[Callable[[], object]] = []

    def call(X: Any, Y: Any) -> None:
        function[0]()

    host_kernel(made)(call)
    host_kernel(made, engine="test of nets", device="cuda")(call)
    yield function
    SCHEMAS.unregister("TestCall")
    KERNELS.unregister(kernel_key("TestCall", "reference", ANY))
    KERNELS.unregister(("TestCall", "cuda", "test of nets"))


@pytest.mark.parametrize("type", PARALLEL)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("place", [None, 0])
def test_a_net_may_run_a_net(type: str, workers: int, place: int | None, runner: list[Callable[[], object]]) -> None:
    """Also where both share threads of which there is only one."""
    option = mix("any", ["a"], ["b"], device=place).device_option
    inner = subject([*DIAMOND, mix("away", ["f"], ["a"], device=0)], type, workers, name="inner")
    outer = subject(
        [operator_def("TestCall", ["a"], ["b"], device=option), operator_def("TestCall", ["a"], ["c"])], type, workers
    )
    once = threading.Lock()
    assert isinstance(outer.net, ParallelNet)

    def run() -> None:
        with once:
            inner.net.run()

    runner.append(run)
    for _ in range(3):
        outer.net.run()
        if not outer.net.policy.blocks:
            outer.net.run_async().wait()
    outer.net.close()
    inner.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_two_threads_run_two_nets_on_shared_threads(type: str) -> None:
    ops = [*DIAMOND, mix("away", ["f"], ["a"], device=0), mix("back", ["a"], ["c"])]
    made = [subject(ops, type, 2, name=name) for name in ("one", "two")]
    expected = reference(ops)
    for _ in range(10):
        expected.net.run()
    failed: list[BaseException] = []

    def run(position: int) -> None:
        try:
            for _ in range(10):
                made[position].net.run()
        except BaseException as error:
            failed.append(error)

    with watching():
        threads = [threading.Thread(target=run, args=(position,)) for position in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []
    for one in made:
        assert_same(one.values(), expected.values())
        one.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_two_threads_cannot_run_one_net_at_once(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"])], type, 2)
    refused: list[str] = []

    def again() -> None:
        try:
            made.net.run()
        except NetError as error:
            refused.append(str(error))

    def plan() -> None:
        thread = threading.Thread(target=again)
        thread.start()
        thread.join()

    with watching() as watch:
        watch.plans["one"] = plan
        made.net.run()
    assert len(refused) == 1
    assert "is running already" in refused[0]
    made.net.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("type", PARALLEL)
def test_a_forked_child_makes_and_runs_its_own_net(type: str) -> None:
    """The parent has run one on the same shared threads, which are not there in the child."""
    ops = [*DIAMOND, mix("away", ["f"], ["a"], device=0), mix("back", ["a"], ["c"])]
    made, expected = subject(ops, type, 2), reference(ops)
    for _ in range(3):
        made.net.run()
        expected.net.run()
    child = os.fork()
    if child == 0:  # pragma: no cover -- another process
        code = 1
        try:
            signal.alarm(int(LONG_S))
            own = subject(ops, type, 2)
            for _ in range(3):
                own.net.run()
            assert_same(own.values(), expected.values())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    made.net.run()
    made.net.close()
