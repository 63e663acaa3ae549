"""Queues of records whose batches are cut anew.

CreateRebatchingQueue, EnqueueRebatchingQueue, DequeueRebatchingQueue, CloseRebatchingQueue.

A record is a tensor of each of `num_blobs` columns. Batches of any size are taken apart when they go in, and put
together when they come out. Who finds the queue full, or empty, waits; once it is closed nobody does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from tazza.errors import ClosedError, ShapeError
from tazza.operator import Array, Effects, OpView, Role, arg, blob, ends, host_kernel, schema
from tazza.ops.control.blobs_queue import QueueKernel, WaitingQueue
from tazza.runtime.patience import Patience
from tazza.tensor import Blob
from tazza.tensor.blob import blob_type

QUEUE = "std::unique_ptr<caffe2::RebatchingQueue>"
NO_GRADIENT = ends("records come from another net")
Record = tuple[Array, ...]


@blob_type(QUEUE)
class RebatchingQueue(WaitingQueue):
    """Records in the order in which they came; none of their arrays is written any more."""

    def __init__(self, capacity: int, width: int) -> None:
        """Have room for `capacity` records of `width` tensors."""
        super().__init__(width)
        self.capacity = capacity
        self._records: deque[Record] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def write(self, records: Sequence[Record], patience: Patience) -> bool:
        """Put records in, each as soon as there is room; False where the queue is closed first.

        Raises:
            RunCancelledError, DeadlineError: the wait ended before there was room for all; some may be in.
        """
        written = 0
        with self.turn:
            while written < len(records) and not self.closed:
                room = self.capacity - len(self._records)
                if room > 0:
                    some = records[written : written + room]
                    written += len(some)
                    self._records.extend(some)
                    self.turn.notify_all()
                else:
                    patience.wait(self.turn)
            return written == len(records) and not self.closed

    def read(self, count: int, patience: Patience) -> list[Record]:
        """Take records out, `count`, or those that there are when the queue is closed.

        Raises:
            RunCancelledError, DeadlineError: the wait ended before there were so many; they stay in the queue.
        """
        found: list[Record] = []
        with self.turn:
            try:
                while len(found) < count and (self._records or not self.closed):
                    if self._records:
                        found.append(self._records.popleft())
                        self.turn.notify_all()
                    else:
                        patience.wait(self.turn)
            except BaseException:
                self._records.extendleft(reversed(found))
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
            records = [tuple(columns)]
            if op.enqueue_batch:
                op.require(all(one.ndim for one in columns), "a tensor has rank 0, a batch has rows")
                rows = sorted({len(one) for one in columns})
                op.require(len(rows) <= 1, f"tensors have {' and '.join(map(str, rows))} rows, a row is a record")
                records = [tuple(one[n, ...] for one in columns) for n in range(rows[0])]
            if not queue.write(records, self.patience):
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
            records = self.opened(op, len(Y)).read(op.num_elements, self.patience)
        if not records:
            raise op.error(ClosedError, f"the queue {self.queue.name!r} is closed, and empty")
        for target, column in zip(Y, zip(*records, strict=True), strict=True):
            kinds = {(one.shape, one.dtype) for one in column}
            if len(kinds) > 1:
                raise op.error(ShapeError, f"records of {target.name!r} differ: {sorted(map(str, kinds))}")
            target.put(np.stack(column))


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
