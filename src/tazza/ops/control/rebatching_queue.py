"""Queues of records whose batches are cut anew.

CreateRebatchingQueue, EnqueueRebatchingQueue, DequeueRebatchingQueue, CloseRebatchingQueue.

A record is a tensor of each of `num_blobs` columns. Batches of any size are taken apart when they go in, and put
together when they come out. Who finds the queue full, or empty, waits; once it is closed nobody does.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ClosedError, ShapeError
from tazza.operator import Array, Effects, OpView, Role, arg, blob, ends, host_kernel, schema
from tazza.ops.control.blobs_queue import QueueKernel, WaitingQueue
from tazza.runtime.patience import Patience
from tazza.tensor import Blob
from tazza.tensor.blob import blob_type

QUEUE = "std::unique_ptr<caffe2::RebatchingQueue>"
NO_GRADIENT = ends("records come from another net")


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in a row, as the rows of a tensor of each column."""

    columns: tuple[Array, ...]
    rows: int

    def part(self, begin: int, end: int) -> Batch:
        """Return records `begin` to `end`, which lie in the memory of this batch."""
        return Batch(tuple(one[begin:end] for one in self.columns), end - begin)


@blob_type(QUEUE)
class RebatchingQueue(WaitingQueue):
    """Records in the order in which they came, in batches; none of their arrays is written any more.

    A batch goes in and comes out by steps between which nothing is called, so that an interrupt (Ctrl-C) loses no
    record and gives none twice.
    """

    def __init__(self, capacity: int, width: int) -> None:
        """Have room for `capacity` records of `width` tensors."""
        super().__init__(width)
        self.capacity = capacity
        self._batches: deque[Batch] = deque()
        self._count: int = 0

    def __len__(self) -> int:
        return self._count

    def write(self, batch: Batch, patience: Patience) -> bool:
        """Put records in, each as soon as there is room; False where the queue is closed first.

        Raises:
            RunCancelledError, DeadlineError: the wait ended before there was room for all; some may be in.
        """
        written = 0
        with self.turn:
            while written < batch.rows and not self.closed:
                room = self.capacity - self._count
                if room > 0:
                    end = min(written + room, batch.rows)
                    some = batch if end - written == batch.rows else batch.part(written, end)
                    rows = some.rows
                    self._batches += (some,)
                    self._count += rows
                    written = end
                    self.turn.notify_all()
                else:
                    patience.wait(self.turn)
            return written == batch.rows and not self.closed

    def read(self, count: int, patience: Patience) -> list[Batch]:
        """Take `count` records out, in batches, or those that there are when the queue is closed.

        Raises:
            RunCancelledError, DeadlineError: the wait ended before there were so many; they stay in the queue.
        """
        found: list[Batch] = []
        taken: int = 0
        with self.turn:
            try:
                while taken < count and (self._count or not self.closed):
                    if not self._count:
                        patience.wait(self.turn)
                        continue
                    first = self._batches[0]
                    if not first.rows:
                        self._batches.popleft()
                        continue
                    rows = min(count - taken, first.rows)
                    some, rest = (first if rows == first.rows else first.part(0, rows)), first.part(rows, first.rows)
                    found += (some,)
                    self._batches[0] = rest
                    self._count -= rows
                    taken += rows
                    self.turn.notify_all()
            except BaseException:
                self._batches.extendleft(reversed(found))
                self._count += taken
                raise
        return found


class RebatchingKernel(QueueKernel):
    """Base of kernels that wait for such a queue."""

    def opened(self, op: OpView, width: int) -> RebatchingQueue:
        """Return the queue.

        Raises:
            ShapeError: it has records of another width.
        """
        queue = self.queue.get(RebatchingQueue)
        op.require(width == queue.width, f"{width} blobs for the queue {self.queue.name!r} of {queue.width}")
        return queue


ON_QUEUE = blob("queue", type_name=QUEUE, role=Role.STATE)

CREATE_REBATCHING_QUEUE = schema(
    "CreateRebatchingQueue",
    """queue = an empty queue.

    A blob that has something in it already is given the new queue instead.""",
    outputs=[blob("queue", type_name=QUEUE)],
    args=[
        arg("capacity", int, 1, minimum=0, doc="records that it has room for"),
        arg("num_blobs", int, 1, minimum=0, doc="tensors of a record"),
    ],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateRebatchingQueue", capacity=3)
    >>> _ = run("EnqueueRebatchingQueue", queue, [1, 2, 3], enqueue_batch=1)
    >>> run("DequeueRebatchingQueue", queue, num_elements=2)
    array([1, 2], dtype=int32)
    """,
)


@host_kernel(CREATE_REBATCHING_QUEUE)
def create_rebatching_queue(op: OpView, queue: Blob) -> None:
    queue.set(RebatchingQueue(op.capacity, op.num_blobs))


ENQUEUE_REBATCHING_QUEUE = schema(
    "EnqueueRebatchingQueue",
    """The tensors X go into the queue as one record, or with `enqueue_batch` row by row, as soon as there is room.

    A batch may be larger than the queue.""",
    inputs=[ON_QUEUE, blob("X", variadic=True, role=Role.DATA, doc="a tensor of each column")],
    args=[arg("enqueue_batch", bool, False, doc="each row of the tensors is a record")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateRebatchingQueue")
    >>> _ = run("EnqueueRebatchingQueue", queue, [1, 2])
    >>> len(queue)
    1
    """,
)


@host_kernel(ENQUEUE_REBATCHING_QUEUE)
class EnqueueRebatchingQueue(RebatchingKernel):
    """Waits for room."""

    def run(self, op: OpView, X: tuple[Blob, ...]) -> None:
        with self.patience.span():
            queue, columns = self.opened(op, len(X)), [np.array(one.tensor().plain()) for one in X]
            if not op.enqueue_batch:
                batch = Batch(tuple(one[None] for one in columns), 1)
            else:
                op.require(all(one.ndim for one in columns), "a tensor has rank 0, a batch has rows")
                rows = sorted({len(one) for one in columns})
                op.require(len(rows) <= 1, f"tensors have {' and '.join(map(str, rows))} rows, a row is a record")
                batch = Batch(tuple(columns), rows[0])
            if not queue.write(batch, self.patience):
                raise op.error(ClosedError, f"the queue {self.queue.name!r} is closed")


DEQUEUE_REBATCHING_QUEUE = schema(
    "DequeueRebatchingQueue",
    "Y = the next `num_elements` records of the queue, stacked; fewer where it is closed.",
    inputs=[ON_QUEUE],
    outputs=[blob("Y", variadic=True, dynamic=True, doc="a tensor of each column, with a row for each record")],
    args=[arg("num_elements", int, 1, minimum=1, doc="records")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateRebatchingQueue")
    >>> _ = run("EnqueueRebatchingQueue", queue, [1.0, 2.0])
    >>> run("DequeueRebatchingQueue", queue)
    array([[1., 2.]], dtype=float32)
    """,
)


@DEQUEUE_REBATCHING_QUEUE.infer
def dequeue_rebatching_queue_infer(op: OpView, queue: object) -> tuple[None, ...]:
    del queue  # what records hold is known when they are there
    return (None,) * len(op.output_letters)


@host_kernel(DEQUEUE_REBATCHING_QUEUE)
class DequeueRebatchingQueue(RebatchingKernel):
    """Waits for records."""

    def run(self, op: OpView, Y: tuple[Blob, ...]) -> None:
        with self.patience.span():
            batches = self.opened(op, len(Y)).read(op.num_elements, self.patience)
        if not batches:
            raise op.error(ClosedError, f"the queue {self.queue.name!r} is closed, and empty")
        for target, parts in zip(Y, zip(*(one.columns for one in batches), strict=True), strict=True):
            kinds = {(one.shape[1:], one.dtype) for one in parts}
            if len(kinds) > 1:
                raise op.error(ShapeError, f"records of {target.name!r} differ: {sorted(map(str, kinds))}")
            target.put(parts[0] if len(parts) == 1 else np.concatenate(parts))


CLOSE_REBATCHING_QUEUE = schema(
    "CloseRebatchingQueue",
    "Whoever waits for the queue stops waiting; nothing goes in any more, what is in it can still be taken out.",
    inputs=[ON_QUEUE],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateRebatchingQueue")
    >>> _ = run("CloseRebatchingQueue", queue)
    >>> queue.closed
    True
    """,
)


@host_kernel(CLOSE_REBATCHING_QUEUE)
def close_rebatching_queue(queue: Blob) -> None:
    queue.get(RebatchingQueue).close()
