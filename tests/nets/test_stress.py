"""Many nets, one after the other and side by side: all give the bits of `simple`, and nothing stays behind."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from typing import TypeVar

import pytest

from tazza.device import Context, Event
from tazza.device.stream import POOL_SIZE
from tazza.errors import KernelError, TazzaError
from tazza.nets.base import NetBase
from tazza.nets.executor.execution import Execution
from tazza.nets.executor.task import ChainTask
from tazza.nets.run import Run
from tazza.operator import Operator
from tazza.proto import OperatorDef
from tazza.runtime.workers import WorkerPool
from tazza.tensor import CPUPlace, CUDAPlace, Tensor, allocator_of
from tazza.workspace import Workspace
from tests.nets.dags import BLOBS, PARALLEL, WORKERS, assert_same, reference, subject
from tests.nets.simulated import mix, watching
from tests.patience import LONG_S

pytestmark = pytest.mark.usefixtures("device")


T = TypeVar("T")


def random_net(draw: random.Random) -> list[OperatorDef]:
    """Return some operators, as `dags.operators` draws them, but fast."""
    made: list[OperatorDef] = []
    for number in range(draw.randint(1, 9)):
        outputs = draw.sample(BLOBS, draw.randint(1, 2))
        inputs = draw.sample([name for name in BLOBS if name not in outputs], draw.randint(0, 3))
        if draw.random() < 0.5:
            inputs = [outputs[0], *inputs]
        device = draw.choice([None, None, None, 0, 1])
        host = device is None and draw.random() < 0.1
        made.append(mix(f"op{number}", inputs, outputs, device=device, host=host))
    return made


def fail() -> None:
    """Fail."""
    raise KernelError("planned")


def stress(count: int, seed: int) -> Counter[str]:
    """Run `count` nets of all types; some fail, some are cancelled, some late, and then run again."""
    draw = random.Random(seed)
    met: Counter[str] = Counter()
    for _ in range(count):
        ops = random_net(draw)
        type = draw.choice(PARALLEL)
        made, expected = subject(ops, type, draw.choice(WORKERS)), reference(ops)
        how = draw.choice(["runs", "runs", "fails", "cancelled", "late"])
        with watching(lambda: time.sleep(0) if draw.random() < 0.2 else None) as watch:
            if how == "fails":
                watch.plans[draw.choice(ops).name] = fail
            run = made.net.run_async(timeout_s=draw.uniform(0, 3e-4) if how == "late" else None)
            if how == "cancelled":
                run.cancel()
            wait([run])
            met[how if run.error is None else f"{how} indeed"] += 1
            assert watch.running == 0
            watch.plans.clear()
            for number in range(2):
                made.feed(number)
                expected.feed(number)
                made.net.run()
                expected.net.run()
                assert_same(made.values(), expected.values())
        made.net.close()
    return met


@pytest.mark.slow
def test_nets_under_stress() -> None:
    met = stress(80, 1)
    assert met["fails"] == met["runs indeed"] == 0
    assert met["fails indeed"]
    assert met["cancelled indeed"]
    assert met["late indeed"]


@pytest.mark.slow
def test_random_nets_under_stress(soak: int) -> None:
    """Ten thousand with `--soak`."""
    met = stress(200 if soak == 1 else 1000 * soak, 2)
    assert met["fails"] == met["runs indeed"] == 0


@pytest.mark.slow
def test_nets_under_stress_side_by_side() -> None:
    """On the same shared threads."""
    side_by_side(10)


@pytest.mark.slow
def test_many_nets_under_stress_side_by_side(soak: int) -> None:
    side_by_side(100 * soak)


def side_by_side(count: int) -> None:
    """Run random nets in four threads."""
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        try:
            for _ in range(count):
                ops = random_net(draw)
                made, expected = subject(ops, draw.choice(PARALLEL), 2), reference(ops)
                for _ in range(2):
                    made.net.run()
                    expected.net.run()
                    assert_same(made.values(), expected.values())
                made.net.close()
        except BaseException as error:
            failed.append(error)

    with watching():
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []


# -- what stays behind -------------------------------------------------------------------------------------------------

KINDS = (Context, Event, Execution, NetBase, Operator, Run, ChainTask, Tensor, WorkerPool, Workspace)


def living() -> Counter[str]:
    """Count the objects of the kinds that runs make, after the garbage was collected."""
    gc.collect()
    return Counter(kind.__name__ for one in gc.get_objects() for kind in KINDS if isinstance(one, kind))


def cycle(type: str, draw: random.Random) -> None:
    """Create a net, run it in all ways, delete it."""
    ops = random_net(draw)
    made = subject(ops, type, 2)
    made.net.run()
    made.net.run(timeout_s=60)
    made.net.run_async(timeout_s=60).wait()
    with watching() as watch:
        watch.plans[ops[0].name] = fail
        with pytest.raises(KernelError, match="planned"):
            made.net.run()
    run = made.net.run_async()
    run.cancel()
    try:
        run.wait()
    except TazzaError:
        assert run.done()
    made.net.close()


def at_rest(look: Callable[[], T]) -> T:
    """Return the same twice in a row: threads take a moment to leave a run that has ended, and to end."""
    former, found = None, look()
    while found != former:
        time.sleep(5e-3)
        former, found = found, look()
    return found


def own_threads() -> int:
    """Count threads of nets and clocks; those of shared pools and streams stay for a while, whatever runs."""
    kept = ("tazza-stream", "tazza-cpu", "tazza-cuda")
    return sum(not thread.name.startswith(kept) for thread in threading.enumerate())


def in_use() -> int:
    """Return the bytes that tensors hold."""
    places = (CPUPlace(), CUDAPlace(0), CUDAPlace(1))
    return sum(allocator_of(place).statistics.in_use_bytes for place in places)


def cycles(type: str, count: int) -> None:
    """Check that `count` cycles leave nothing behind."""
    draw = random.Random(3)
    for _ in range(5):  # pools, streams and contexts of threads are made
        cycle(type, draw)
    before, bytes_before, threads_before = at_rest(living), in_use(), at_rest(own_threads)
    for _ in range(count):
        cycle(type, draw)
    after = at_rest(living)
    contexts = after.pop("Context")
    assert contexts <= threading.active_count() * (1 + 2 * (POOL_SIZE + 1)), "each thread has one for each stream"
    grown = {kind: n - before[kind] for kind, n in after.items() if n > before[kind]}
    assert grown == {}
    assert in_use() <= bytes_before
    assert at_rest(own_threads) <= threads_before


@pytest.mark.slow
@pytest.mark.parametrize("type", PARALLEL)
def test_nothing_stays_of_nets_that_were_deleted(type: str) -> None:
    cycles(type, 10)


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell")
@pytest.mark.parametrize("type", PARALLEL)
def test_nothing_stays_of_many_nets(type: str, soak: int) -> None:
    cycles(type, 50)
    before = resident()
    cycles(type, 50 * soak)
    assert resident() - before < 8 << 20, "no more than what the heap of the process happens to grow by"


@pytest.mark.parametrize("type", ["dag", "async_dag"])
def test_own_threads_end_with_their_net(type: str) -> None:
    made = subject([mix(f"op{k}", ["a"], [name]) for k, name in enumerate("bcd")], type, 2, name="mine")
    met = threading.Barrier(2, timeout=LONG_S)
    with watching() as watch:
        watch.plans.update(op0=met.wait, op1=met.wait)
        made.net.run()
    assert any("tazza-mine" in thread.name for thread in threading.enumerate())
    made.net.close()
    assert not any("tazza-mine" in thread.name for thread in threading.enumerate())
