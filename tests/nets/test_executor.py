"""The executor where it is delicate: ends, errors, interrupts, threads that are not to be had, nets in nets."""

from __future__ import annotations

import ctypes
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

from tazza.device import Context
from tazza.errors import KernelError, NetError, TazzaError
from tazza.nets.executor.execution import Execution
from tazza.nets.parallel import ParallelNet, shared_pool
from tazza.operator import (
    KERNELS,
    SCHEMAS,
    Call,
    Launch,
    NativeCall,
    Operands,
    Operator,
    OpView,
    Spec,
    arg,
    blob,
    ends,
    host_kernel,
    launcher,
    operator_def,
    schema,
)
from tazza.runtime.workers import WorkerPool
from tazza.tensor import CPUPlace, CUDAPlace
from tests.nets.dags import PARALLEL, WORKERS, assert_same, reference, subject
from tests.nets.simulated import mix, unwatched, watching

pytestmark = pytest.mark.usefixtures("device")

WIDE = [mix(f"op{k}", ["a"], [name]) for k, name in enumerate("bcdef")]
DIAMOND = [*WIDE[:4], mix("last", ["b", "c", "d", "e"], ["f"])]


# -- the end of a run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", PARALLEL)
def test_a_run_has_ended_when_it_returns(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when the thread that ends the run is slow to say so."""
    finish = Execution._finish  # pyright: ignore[reportPrivateUsage] -- where the race was
    ended: list[int] = []

    def slow(execution: Execution) -> None:
        time.sleep(1e-3)
        finish(execution)
        ended.append(1)

    monkeypatch.setattr(Execution, "_finish", slow)
    made, expected = subject(DIAMOND, type, 2), reference(DIAMOND)
    expected.net.run()
    for number in range(8):
        made.net.run()
        assert_same(made.values(), expected.values())
        while len(ended) <= number:
            time.sleep(1e-5)
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
@pytest.mark.parametrize("device", [None, 0])
def test_nobody_writes_after_a_run_has_raised(type: str, device: int | None) -> None:
    """The others that run at the first error are waited for; those that were not begun never begin."""
    ops = [mix("slow", ["a"], ["b"], device=device), mix("bad", ["a"], ["c"]), mix("next", ["b", "c"], ["d"])]
    made = subject(ops, type, 2)
    begun, failed = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        failed.wait(5)
        time.sleep(2e-3)

    def fail() -> None:
        begun.wait(5)
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
def test_the_first_error_says_operator_thread_and_progress(type: str) -> None:
    made = subject([mix("good", ["a"], ["b"]), mix("bad", ["b"], ["c"])], type, 2)

    def fail() -> None:
        raise KernelError("planned")

    with watching() as watch:
        watch.plans["bad"] = fail
        with pytest.raises(KernelError) as caught:
            made.net.run()
    text = str(caught.value)
    assert "TestMix 'bad'(b -> c) (operator 1 of net 'dag')" in text
    assert f"on thread {threading.current_thread().name!r}" in text
    assert "stopped after 1 of 2 operators" in text
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_what_a_host_kernel_raises_keeps_its_type_and_says_the_thread(type: str) -> None:
    made = subject([mix("bad", ["a"], ["b"], host=True)], type, 2)

    def fail() -> None:
        raise ZeroDivisionError("planned")

    with watching() as watch:
        watch.plans["bad"] = fail
        with pytest.raises(ZeroDivisionError) as caught:
            made.net.run()
    assert any("on thread" in note for note in caught.value.__notes__)
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_of_two_errors_one_is_raised(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"]), mix("two", ["a"], ["c"])], type, 2)
    met = threading.Barrier(2, timeout=5)

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


def no_threads(pool: WorkerPool, work: Callable[[], object]) -> None:
    """Stand for `submit` in a process that has no room for threads."""
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("type", PARALLEL)
def test_the_calling_thread_runs_all_where_there_are_no_others(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [*DIAMOND, mix("away", ["f"], ["a"], device=0), mix("back", ["a"], ["c"])]
    made, expected = subject(ops, type, 4), reference(ops)
    made.net.run()  # threads of streams are there
    expected.net.run()
    if made.net.policy.own_pool:  # pyright: ignore[reportAttributeAccessIssue] -- all of these have one
        pools = made.net._pools.values()  # pyright: ignore[reportAttributeAccessIssue]
    else:
        pools = [shared_pool(place, 4) for place in (CPUPlace(), CUDAPlace(0))]
    for pool in pools:
        monkeypatch.setattr(pool, "submit", lambda work, pool=pool: no_threads(pool, work))
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
            assert WAITING.cancelled.wait(5)
            raise KernelError("gave up")

        def cancel(self) -> None:
            """Give up."""
            WAITING.cancels += 1
            WAITING.cancelled.set()

    host_kernel(made)(Wait)
    WAITING.began, WAITING.cancelled, WAITING.cancels = threading.Event(), threading.Event(), 0
    yield WAITING
    SCHEMAS.unregister("TestWait")
    KERNELS.unregister(("TestWait", "cpu", "reference"))


@pytest.mark.parametrize("type", PARALLEL)
def test_an_operator_that_waits_is_told_of_the_first_error(type: str, waiting: Waiting) -> None:
    made = subject([operator_def("TestWait", ["a"], ["b"]), mix("bad", ["a"], ["c"])], type, 2)

    def fail() -> None:
        assert waiting.began.wait(5)
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
    assert waiting.began.wait(5)
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
    assert waiting.began.wait(5)
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
        watch.plans.update(small=ran.set, waits=lambda: ran.wait(5) or pytest.fail("nobody ran beside it"))
        for _ in range(3):
            ran.clear()
            made.net.run()
    made.net.close()


# -- interrupts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", PARALLEL)
def test_an_interrupt_inside_of_an_operator_drains_the_others(type: str) -> None:
    made, expected = subject(WIDE, type, 2), reference(WIDE)
    main = threading.get_ident()

    def interrupt() -> None:
        if threading.get_ident() == main:
            raise KeyboardInterrupt
        time.sleep(1e-3)

    with watching(interrupt) as watch:
        with pytest.raises(KeyboardInterrupt):
            made.net.run()
        assert watch.running == 0
        watch.pause = lambda: None
        made.net.run()
        expected.net.run()
        assert_same(made.values(), expected.values())
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_an_interrupt_while_the_calling_thread_sleeps_waits_for_the_others(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"]), mix("two", ["a"], ["c"])], type, 2)
    main = threading.get_ident()
    met, over = threading.Barrier(2, timeout=5), threading.Event()

    def pause() -> None:
        met.wait()
        if threading.get_ident() != main:
            time.sleep(2e-3)  # the calling thread has gone to sleep
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(2e-3)
            over.set()

    with watching(pause), pytest.raises(KeyboardInterrupt):
        made.net.run()
    assert over.is_set()
    made.net.close()


def interrupted_runs(type: str, workers: int, count: int) -> int:
    """Interrupt runs at random moments; return how many of `count` were, after checking that each could be repeated."""
    ops = [*DIAMOND, mix("away", ["f"], ["a"], device=0), mix("back", ["a"], ["c"])]
    made, expected = subject(ops, type, workers), reference(ops)
    made.net.run()
    expected.net.run()
    draw = random.Random(len(type) + workers)
    interrupted = 0
    inside = False

    def raising(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if inside and _in_executor(frame):
            interrupted += 1
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, raising)
    try:
        for number in range(count):
            expected.feed(number)
            made.feed(number)
            inside = True
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 1.5e-3))
                with unwatched():
                    made.net.run()
            except KeyboardInterrupt:
                pass
            finally:
                inside = False
                signal.setitimer(signal.ITIMER_REAL, 0)
            made.feed(number)
            with watching():
                expected.net.run()
                made.net.run()
            assert_same(made.values(), expected.values())
    finally:
        signal.signal(signal.SIGALRM, former)
        made.net.close()
    return interrupted


def _in_executor(frame: FrameType | None) -> bool:
    """Whether the thread works for a run by now and still: `run` itself is not safe from interrupts at its two ends."""
    while frame is not None:
        if frame.f_code.co_name == "work_to_the_end":
            return True
        frame = frame.f_back
    return False


@pytest.mark.parametrize("type", PARALLEL)
def test_interrupts_at_any_moment_leave_a_net_that_runs(type: str) -> None:
    assert interrupted_runs(type, 2, 40) > 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("type", PARALLEL)
def test_many_interrupts_at_any_moment_leave_a_net_that_runs(type: str, workers: int) -> None:
    assert interrupted_runs(type, workers, 1500) > 0


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
    KERNELS.unregister(("TestCall", "cpu", "reference"))
    KERNELS.unregister(("TestCall", "cuda", "test of nets"))


@pytest.mark.parametrize("type", PARALLEL)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("device", [None, 0])
def test_a_net_may_run_a_net(
    type: str, workers: int, device: int | None, runner: list[Callable[[], object]]
) -> None:
    """Also where both share threads of which there is only one."""
    option = mix("any", ["a"], ["b"], device=device).device_option
    inner = subject([*DIAMOND, mix("away", ["f"], ["a"], device=0)], type, workers, name="inner")
    outer = subject(
        [operator_def("TestCall", ["a"], ["b"], device=option), operator_def("TestCall", ["a"], ["c"])], type, workers
    )
    once = threading.Lock()

    def run() -> None:
        with once:
            inner.net.run()

    runner.append(run)
    for _ in range(3):
        outer.net.run()
        if not outer.net.policy.blocks:  # pyright: ignore[reportAttributeAccessIssue] -- all of these have one
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
            signal.alarm(10)
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


# -- threads of operators ----------------------------------------------------------------------------------------------


@dataclass
class Widths:
    """The threads that operators run on at this moment, in all."""

    now: int = 0
    most: int = 0
    ran: int = 0


@pytest.fixture
def widths() -> Generator[Widths]:
    """Have an operator `TestWidth` whose kernel is native and runs on `width` threads."""
    made = schema(
        "TestWidth",
        "Runs on threads.",
        inputs=[blob("X")],
        outputs=[blob("Y", like="X")],
        args=[arg("width", int, 1, doc="how many threads")],
        no_gradient=ends("a test"),
    )
    seen = Widths()
    lock = threading.Lock()

    def body(width: int, b: int, c: int, d: int) -> int:
        with lock:
            seen.now += width
            seen.most = max(seen.most, seen.now)
            seen.ran += 1
        time.sleep(2e-4)
        with lock:
            seen.now -= width
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int64, *(ctypes.c_int64,) * 4)(body)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None

    @dataclass(frozen=True)
    class Wide:
        """The launch."""

        op: OpView
        scratch_bytes: int = 0

        def bind(self, operands: Operands) -> Call:
            """Return a native call."""
            width = self.op.arguments["width"]
            return NativeCall(address, (width, 0, 0, 0), (function, operands), threads=width)

    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
        del context, inputs, outputs
        return Wide(op)

    launcher(made, engine="reference")(prepare)
    yield seen
    SCHEMAS.unregister("TestWidth")
    KERNELS.unregister(("TestWidth", "cpu", "reference"))


@pytest.mark.parametrize("type", PARALLEL)
def test_operators_never_run_on_more_threads_than_there_are(
    type: str, widths: Widths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that needs all of them wait for ever behind small ones."""
    monkeypatch.setattr("tazza.nets.parallel.thread_count", lambda: 4)
    monkeypatch.setattr("tazza.nets.parallel.allowed_cpus", lambda: 4)
    needs = [1, 4, 2, 1, 3, 1, 4, 1, 2, 9]
    ops = [operator_def("TestWidth", ["a"], [f"w{k}"], width=width) for k, width in enumerate(needs)]
    made = subject(ops, type, 4)
    for _ in range(8):
        made.net.run()
    assert widths.ran == 8 * len(needs)
    assert widths.now == 0
    assert 4 <= widths.most <= 4 + 5, "the one of 9 runs on all threads, and alone"
    assert isinstance(made.net, ParallelNet)
    budget = made.net._crew().budget  # pyright: ignore[reportPrivateUsage] -- what is tested
    assert budget is not None
    assert budget.free == budget.total == 4
    made.net.close()
