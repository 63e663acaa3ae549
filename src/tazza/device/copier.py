"""The copier: transfers on a stream of their own, so that they overlap with compute.

    with Scheduler() as scheduler, Copier(scheduler) as copier:
        copier.copy(batch, x); scheduler.schedule(train, reads=[x], writes=[w])

Copies are work of a scheduler, on a lane that nothing else runs on: they come after what writes their source and what
uses their target, and what uses these later comes after them. Between tensors of the host one thread does them, with no
lock of the interpreter held; to and from the device of the scheduler its context queues them, where pinned memory lets
the device do them by itself; what that context does not reach goes through `COPIERS`, and holds up the lane meanwhile.
"""

from __future__ import annotations

from functools import partial

from tazza.device.context import Context
from tazza.device.event import Event
from tazza.device.scheduler import Scheduler
from tazza.device.stream import CPUStream, Stream, stream_pool
from tazza.errors import UnavailableError
from tazza.runtime.closing import Closing
from tazza.runtime.workers import WorkerPool
from tazza.tensor import Place, Tensor
from tazza.tensor.transfer import COPIERS


class Copier(Closing):
    """Copies of tensors in the order of a scheduler's work; thread-safe.

    >>> import numpy as np
    >>> from tazza.tensor import DataType
    >>> x, y = Tensor.from_numpy(np.array([1, 2, 3])), Tensor((3,), DataType.INT64)
    >>> with Copier(Scheduler(streams=1)) as copier:
    ...     copier.copy(x, y).wait()
    True
    >>> y.tolist()
    [1, 2, 3]
    """

    def __init__(self, scheduler: Scheduler) -> None:
        """Add a lane to the scheduler: a thread on the host, a stream of high priority on a device.

        Raises:
            UnavailableError: there is no such device.
        """
        self.scheduler = scheduler
        self._threads: WorkerPool | None = None
        self._lane = scheduler.add_lane(self._stream(scheduler.place), f"copies {scheduler.place}", shared=False)

    def __repr__(self) -> str:
        return f"Copier({self._lane})"

    def _stream(self, place: Place) -> Stream:
        if not place.is_host:
            return stream_pool(place).take("high")
        self._threads = WorkerPool(1, "tazza-copier")
        return CPUStream(place, 0, "high", pool=self._threads)

    def copy(self, source: Tensor, target: Tensor, *, name: str = "copy") -> Event:
        """Copy all elements of `source` into `target`, of the same shape and type; returns the event of its end.

        The event fails, and with it what depends on the copy, where `Context.copy` would raise.
        """
        work = partial(_copy, source, target)
        return self.scheduler.schedule(
            work, reads=[source], writes=[target], nbytes=source.nbytes, name=name, kind="copy", lane=self._lane
        )

    def close(self) -> None:
        """Wait for all copies, and end the thread; failures stay for the scheduler's `join`."""
        self.scheduler.remove_lane(self._lane)
        if self._threads is not None:
            self._threads.close()


def _copy(source: Tensor, target: Tensor, context: Context) -> None:
    if all(place.is_host or place == context.place for place in (source.place, target.place)):
        context.copy(source, target)
        return
    between = COPIERS.get((source.place.kind, target.place.kind))
    if between is None:
        raise UnavailableError(f"nothing copies from {source.place} to {target.place}", hint="tazza doctor")
    between(source, target)
