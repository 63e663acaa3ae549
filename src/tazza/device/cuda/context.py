"""Contexts of CUDA devices."""

from __future__ import annotations

from collections import deque

from tazza.device.context import Context, current_context
from tazza.device.cuda.driver import SUCCESS
from tazza.device.cuda.event import CUDAEvent
from tazza.device.cuda.stream import CUDAStream
from tazza.device.recorder import Recorder
from tazza.device.stream import Stream, stream_pool
from tazza.errors import ArgumentError
from tazza.runtime.log import logger
from tazza.tensor import Allocation, CPUPlace, Place

KEPT_BYTES = 1 << 20
"""Memory of a copy of more bytes is let go as soon as the copy has ended, which a thread looks for."""


class CUDAContext(Context):
    """What kernels of a thread need on a CUDA device: its primary context, and a stream that they queue on.

    Bytes are copied from and to the host, the device, and other CUDA devices, by one call for all of them: the driver
    tells the kinds of memory apart by their addresses. It returns at once, unless the host's memory is ordinary:
    the device cannot read that by itself, so such a copy has ended on return.
    """

    def __init__(self, place: Place, stream: Stream | None = None) -> None:
        """Create a context for work on `stream`, by default the device's default one.

        Raises:
            UnavailableError: the device is not there, and why.
            ArgumentError: the stream is of another device.
        """
        queue = stream_pool(place).default if stream is None else stream
        if not isinstance(queue, CUDAStream) or queue.place != place:
            raise ArgumentError(f"a context on {place} does not queue on the stream {queue.name}")
        super().__init__(place, queue)
        self._copied: deque[tuple[CUDAEvent, Allocation, Allocation]] = deque()
        self.device = queue.device
        self._queue = queue

    def _check_reach(self, source: Place, target: Place) -> None:
        if self.place.kind not in (source.kind, target.kind) or not all(
            place.is_host or place.kind == self.place.kind for place in (source, target)
        ):
            super()._check_reach(source, target)

    def _copy_bytes(self, source: Allocation, target: Allocation) -> None:
        if source.place.is_host and target.place.is_host:
            super()._copy_bytes(source, target)
            return
        queue = self._queue
        self.device.call("cuMemcpyAsync", target.address, source.address, target.nbytes, queue.handle)
        done = queue.mark()
        if CPUPlace() in (source.place, target.place):
            done.wait()
        elif target.nbytes > KEPT_BYTES:
            done.notify(lambda spans=(source, target): None)  # keeps both alive until the bytes are there
        else:  # nobody looks but who copies next, or waits
            while self._copied and self._copied[0][0].has_ended():
                self._copied.popleft()
            self._copied.append((done, source, target))

    def wait(self) -> None:
        """See `Context.wait`."""
        super().wait()
        self._copied.clear()

    def recorder(self) -> Recorder:
        """Return the recorder of graphs that the calling thread has for the stream."""
        from tazza.device.cuda.graph import CUDARecorder

        current = current_context(self.place)
        holder = current if current.stream is self._queue else self
        return holder.resource("recorder", lambda: CUDARecorder(self._queue))

    def enter(self) -> None:
        """Make the device current in the driver, for libraries that ask which one is."""
        self.device.enter()

    def leave(self) -> None:
        """Undo `enter`."""
        self.device.leave()

    def close(self) -> None:
        """End every resource when the work that was queued has ended; the context may be used again afterwards."""
        if self._resources or self._scratch is not None:
            status = self.device.ask("cuStreamSynchronize", self._queue.handle)
            if status != SUCCESS:  # whoever waits for that work is told of it
                logger.debug("closing %r: its stream answers with status %d", self, status)
        super().close()


def queue_of(context: Context) -> CUDAStream:
    """Return the stream of a context of CUDA."""
    queue = context.stream
    assert isinstance(queue, CUDAStream), "contexts of CUDA have one"
    return queue
