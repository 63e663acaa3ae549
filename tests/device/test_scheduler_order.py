"""The scheduler on random work: what doing it in order gives, with no wait more than that takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tazza.device import Context, Event, EventState
from tazza.device.scheduler import Scheduler
from tazza.errors import KernelError
from tazza.tensor import CPUPlace
from tests.device.watched import Cell, WatchedStream, held, own_streams


@dataclass(frozen=True)
class Step:
    """A piece of work: variables that it reads and writes (in place where both), and whether it fails."""

    reads: frozenset[int]
    writes: frozenset[int]
    fails: bool = False

    def depends_on(self, earlier: Step) -> bool:
        """Whether one of the two writes what the other one uses."""
        return bool(self.writes & (earlier.reads | earlier.writes) or self.reads & earlier.writes)


class Bench:
    """Cells, and work on them."""

    def __init__(self, cells: int) -> None:
        """Start at 0."""
        self.cells = [Cell() for _ in range(cells)]
        self.broken: list[str] = []
        self.ran: set[int] = set()

    def work(self, number: int, step: Step, pause_s: float = 0.0) -> Callable[[Context], None]:
        """Return work that makes new values of what it reads and of its number."""

        def run(context: Context) -> None:
            with ExitStack() as stack:
                for name in sorted(step.reads | step.writes):
                    stack.enter_context(self.cells[name].use(write=name in step.writes, broken=self.broken))
                if pause_s:
                    time.sleep(pause_s)
                seen = hash((number, *(self.cells[name].value for name in sorted(step.reads))))
                self.ran.add(number)
                if step.fails:
                    raise KernelError(f"step {number}")
                for name in step.writes:
                    self.cells[name].value = hash((seen, name))

        return run


def sequentially(steps: Sequence[Step], cells: int) -> tuple[Bench, list[int | None]]:
    """Do the steps in order, but for those that depend on a failed one; return for each whose failure it has."""
    bench = Bench(cells)
    failures: list[int | None] = []
    for number, step in enumerate(steps):
        roots = [failures[i] for i in range(number) if failures[i] is not None and step.depends_on(steps[i])]
        if roots:
            failures.append(roots[0])
            continue
        try:
            bench.work(number, step)(Context(CPUPlace()))
        except KernelError:
            failures.append(number)
        else:
            failures.append(None)
    return bench, failures


CELLS = 5
some = st.frozensets(st.integers(0, CELLS - 1), max_size=2)
steps_strategy = st.lists(st.builds(Step, some, some), max_size=18)
failing_strategy = st.lists(st.builds(Step, some, some, st.sampled_from([False, False, False, True])), max_size=18)


def run_steps(steps: Sequence[Step], streams: int, pauses: Sequence[float]) -> tuple[Bench, Scheduler, list[Event]]:
    """Schedule all steps."""
    bench = Bench(CELLS)
    scheduler = Scheduler(streams=own_streams(streams))
    events = [
        scheduler.schedule(bench.work(number, step, pause_s), step.reads, step.writes, name=f"step {number}")
        for number, (step, pause_s) in enumerate(zip(steps, pauses, strict=False))
    ]
    return bench, scheduler, events


@settings(deadline=None, max_examples=60)
@given(steps_strategy, st.integers(1, 4), st.lists(st.sampled_from([0.0, 1e-4]), min_size=18, max_size=18))
def test_any_sequence_gives_the_sequential_result(steps: list[Step], streams: int, pauses: list[float]) -> None:
    bench, scheduler, events = run_steps(steps, streams, pauses)
    scheduler.join()
    expected, _ = sequentially(steps, CELLS)
    assert bench.broken == []
    assert [cell.value for cell in bench.cells] == [cell.value for cell in expected.cells]
    assert all(event.state is EventState.SUCCESS for event in events)
    assert (scheduler.metrics.works, scheduler.metrics.failed, len(scheduler)) == (len(steps), 0, 0)


@settings(deadline=None, max_examples=60)
@given(failing_strategy, st.integers(1, 4), st.lists(st.sampled_from([0.0, 1e-4]), min_size=18, max_size=18))
def test_failures_stop_those_who_depend_on_them(steps: list[Step], streams: int, pauses: list[float]) -> None:
    bench, scheduler, events = run_steps(steps, streams, pauses)
    expected, failures = sequentially(steps, CELLS)
    roots = [number for number, failure in enumerate(failures) if failure == number]
    if roots:
        with pytest.raises(KernelError, match=rf"step {roots[0]}\n  in work 'step {roots[0]}' on cpu"):
            scheduler.join()
    scheduler.join()  # what failed was told once
    assert bench.broken == []
    assert bench.ran == expected.ran
    assert [cell.value for cell in bench.cells] == [cell.value for cell in expected.cells]
    assert [event.state is EventState.FAILED for event in events] == [failure is not None for failure in failures]
    metrics = scheduler.metrics
    skipped = sum(failure is not None for failure in failures) - len(roots)
    assert (metrics.failed, metrics.skipped, metrics.works) == (len(roots), skipped, failures.count(None))
    again = Step(frozenset(), frozenset(range(CELLS)))
    scheduler.schedule(bench.work(99, again), again.reads, again.writes)
    scheduler.join()
    assert 99 in bench.ran


# -- waits, against a model that knows only who comes after whom -------------------------------------------------------


def least_waits(steps: Sequence[Step], lanes: Sequence[int]) -> int:
    """Return how many waits order all steps that depend on each other, given their streams; by brute force.

    `before[j]` is everything that is known to end before j starts. Waits are needed for the dependencies that are
    not known yet, but not for one that another one of them comes after.
    """
    before: list[set[int]] = []
    waits = 0
    for j, step in enumerate(steps):
        known: set[int] = set()
        for i in range(j):
            if lanes[i] == lanes[j]:
                known |= {i} | before[i]
        missing = {i for i in range(j) if step.depends_on(steps[i])} - known
        needed = {i for i in missing if not any(i in before[other] for other in missing)}
        waits += len(needed)
        before.append(known.union(*({i} | before[i] for i in needed)))
    return waits


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(steps_strategy, st.integers(1, 4))
def test_waits_are_those_that_are_needed_and_no_more(steps: list[Step], streams: int) -> None:
    log: list[tuple[str, int, Event | None]] = []
    watched = [WatchedStream(number, log) for number in range(streams)]
    scheduler = Scheduler(streams=watched)
    bench = Bench(CELLS)
    with held(watched):
        log.clear()
        for number, step in enumerate(steps):
            scheduler.schedule(bench.work(number, step), step.reads, step.writes)
    scheduler.join()
    waits = [event for what, _, event in log if what == "wait"]
    lanes = [number for what, number, _ in log if what == "work"]
    assert len(waits) == scheduler.metrics.waits == least_waits(steps, lanes)
    assert [lane.waits for lane in scheduler.metrics.lanes] == [
        sum(what == "wait" and number == lane for what, number, _ in log) for lane in range(streams)
    ]
