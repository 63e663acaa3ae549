"""The copier: copies in the order of a scheduler's work, on a thread of their own."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tazza.device import Context, Event
from tazza.device.copier import Copier
from tazza.device.scheduler import Scheduler
from tazza.errors import ShapeError
from tazza.observers.timeline import SpanKind, Timeline
from tazza.tensor import CUDAPlace, Tensor

LIMIT_S = 20.0


def filled(value: float) -> Tensor:
    """Return a tensor of one value."""
    return Tensor.from_numpy(np.full((3, 5), value, np.float32))


def test_copies_come_between_the_work_around_them() -> None:
    timeline = Timeline()
    source, target, out = filled(1), filled(0), filled(0)
    gate = Event()
    with Scheduler(streams=3, timeline=timeline) as scheduler, Copier(scheduler) as copier:

        def fill(context: Context) -> None:
            gate.wait(LIMIT_S)
            source.array[...] += 1

        def double(context: Context) -> None:
            np.multiply(target.array, 2, out=out.array)

        def spoil(context: Context) -> None:
            source.array[...] = -1

        scheduler.schedule(fill, [source], [source])
        event = copier.copy(source, target, name="batch")
        scheduler.schedule(double, [target], [out])
        scheduler.schedule(spoil, (), [source])
        assert not event.query()
        gate.finish()
    assert (target.tolist()[0][0], out.tolist()[2][4], source.tolist()[0][0]) == (2, 4, -1)
    (span,) = (span for span in timeline.spans if span.kind is SpanKind.COPY)
    assert (span.lane, span.name, span.nbytes) == ("copies cpu", "batch", 3 * 5 * 4)
    copies = next(lane for lane in scheduler.metrics.lanes if lane.name == "copies cpu")
    assert (copies.works, copies.nbytes) == (1, 60)


def test_copies_run_beside_compute_on_a_thread_of_their_own() -> None:
    arrived = threading.Barrier(2)
    names: list[str] = []
    with Scheduler(streams=1) as scheduler, Copier(scheduler) as copier:
        scheduler.schedule(lambda context: arrived.wait(LIMIT_S), (), ["work"])

        def meet(context: Context) -> None:
            names.append(threading.current_thread().name)
            arrived.wait(LIMIT_S)  # would never be reached on the stream of the work

        scheduler.schedule(meet, lane=copier._lane)  # pyright: ignore[reportPrivateUsage] -- to stop a copy midway
        copier.copy(filled(1), filled(0)).wait(LIMIT_S)
    assert names[0].startswith("tazza-copier")


def test_a_copy_that_fails_stops_those_who_need_it() -> None:
    target, ran = Tensor.from_numpy(np.zeros(2, np.float32)), list[int]()
    scheduler = Scheduler(streams=1)
    with Copier(scheduler) as copier:
        copier.copy(filled(1), target)
        scheduler.schedule(lambda context: ran.append(1), [target])
    with pytest.raises(ShapeError, match=r"copy: extents of the source \(3, 5\) != \(2,\) of the target"):
        scheduler.join()
    assert ran == []


def test_a_copier_ends_its_thread_and_leaves_its_scheduler() -> None:
    scheduler = Scheduler(streams=1)
    for _ in range(5):
        copier = Copier(scheduler)
        copier.copy(filled(1), filled(2))
        copier.close()
        copier.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tazza-copier")]
    assert {lane.name: lane.works for lane in scheduler.metrics.lanes}["copies cpu"] == 5
    assert len(scheduler.metrics.lanes) == 2


def test_what_no_context_reaches_goes_through_the_copiers(monkeypatch: pytest.MonkeyPatch) -> None:
    from tazza.device import copier as module

    called: list[tuple[Tensor, Tensor]] = []

    def note(source: Tensor, target: Tensor) -> None:
        called.append((source, target))

    monkeypatch.setattr(module, "COPIERS", {("cpu", "cuda"): note})
    source, target = filled(1), Tensor((3, 5), place=CUDAPlace(0))
    with Scheduler(streams=1) as scheduler, Copier(scheduler) as copier:
        copier.copy(source, target)
    assert called[0][0] is source
    assert called[0][1] is target
