"""Queues of blobs between threads: CreateBlobsQueue, EnqueueBlobs, DequeueBlobs, their safe forms, CloseBlobsQueue.

A record is a blob of each of `num_blobs` columns. Nothing is copied: what is in the blobs changes places with what is
in a place of the queue, so that memory goes round. Behind an EnqueueBlobs the blobs hold what the place held before.

Who finds the queue full, or empty, waits. Once it is closed nobody does: what is in it can still be taken out, and what
there is room for be put in; then the plain forms fail, and the safe ones say so in `status`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from tazza.errors import ClosedError, ShapeError, TazzaError
from tazza.operator import Array, Effects, Operator, OpView, Role, arg, as_many, blob, each, ends, host_kernel, schema
from tazza.ops.control.queue_statistic import QueueStatistics
from tazza.runtime.holding import Conditional
from tazza.runtime.patience import Patience
from tazza.tensor import Blob, DataType, Tensor
from tazza.tensor.blob import blob_type

QUEUE = "std::shared_ptr<caffe2::BlobsQueue>"
NO_GRADIENT = ends("records come from another net")


class WaitingQueue:
    """Base of queues for whose room, or records, threads wait: `turn` is held by who looks or changes."""

    def __init__(self, width: int) -> None:
        """Be open, with records of `width` blobs."""
        self.width = width
        self.closed = False
        self.why = ""
        self.turn = Conditional()

    def close(self, why: str = "") -> None:
        """Let nobody wait any more; those who get nothing are told why. The first reason stays."""
        with self.turn:
            self.why = why if not self.closed else self.why
            self.closed = True
            self.turn.notify_all()

    def wake(self) -> None:
        """Let all who wait look again."""
        with self.turn:
            self.turn.notify_all()


@blob_type(QUEUE)
class BlobsQueue(WaitingQueue):
    """A ring of places. `turn` guards all that changes; whoever changes it notifies all who wait.

    An interrupt (Ctrl-C) between two steps loses no record and tears none: one that was on its way may still be in the
    queue.
    """

    def __init__(self, capacity: int, width: int, fields: Sequence[str] = (), name: str = "") -> None:
        """Have room for `capacity` records of `width` blobs, whose columns may have names; count as `name`."""
        super().__init__(width)
        self.fields = tuple(fields)
        self._statistics = QueueStatistics(name, fields)
        self._ring: list[list[object]] = [[None] * width for _ in range(capacity)]
        self._written = self._read = 0

    def __len__(self) -> int:
        """Return the number of records that are in it."""
        return self._written - self._read

    @property
    def capacity(self) -> int:
        """Records that it has room for."""
        return len(self._ring)

    def write(self, blobs: Sequence[Blob], patience: Patience) -> bool:
        """Put a record in; False where there is no room and the queue is closed.

        Raises:
            RunCancelledError, DeadlineError: the wait ended before there was room.
        """
        self._statistics.begin(1)
        began_ns = time.perf_counter_ns()
        with self.turn:
            while len(self) == self.capacity and not self.closed:
                patience.wait(self.turn)
            if len(self) == self.capacity:
                return False
            place = self._written % self.capacity
            before, self._ring[place] = self._ring[place], [one.value for one in blobs]
            self._written += 1
            self.turn.notify_all()
            _fill(blobs, before)
        self._statistics.written(time.perf_counter_ns() - began_ns)
        return True

    def read(self, blobs: Sequence[Blob], patience: Patience) -> bool:
        """Take a record out; False where there is none and the queue is closed.

        Raises:
            RunCancelledError, DeadlineError: the wait ended before there was one.
        """
        self._statistics.begin(-1)
        began_ns = time.perf_counter_ns()
        with self.turn:
            while not len(self) and not self.closed:
                patience.wait(self.turn)
            if not len(self):
                return False
            place = self._read % self.capacity
            before, record = [one.value for one in blobs], self._ring[place]
            _fill(blobs, record)
            self._ring[place] = before
            self._read += 1
            self.turn.notify_all()
        self._statistics.taken(record, time.perf_counter_ns() - began_ns)
        return True

    def take(self, into: list[list[object]], patience: Patience) -> bool:
        """Put what is in the next record at the end of a list; False where there is none and the queue is closed.

        Raises:
            RunCancelledError, DeadlineError: the wait ended before there was one.
        """
        self._statistics.begin(-1)
        began_ns = time.perf_counter_ns()
        with self.turn:
            while not len(self) and not self.closed:
                patience.wait(self.turn)
            if not len(self):
                return False
            empty: list[object] = [None] * self.width
            place = self._read % self.capacity
            record, self._ring[place] = self._ring[place], empty
            self._read += 1
            into.append(record)  # an interrupt comes behind a call: here the record is in the list
            self.turn.notify_all()
        self._statistics.taken(record, time.perf_counter_ns() - began_ns)
        return True


def _fill(blobs: Sequence[Blob], values: Sequence[object]) -> None:
    for target, value in zip(blobs, values, strict=True):
        if value is None:
            target.reset()
        else:
            target.set(value)


class QueueKernel:
    """Base of kernels that may wait for a queue; another thread may ask them to give up."""

    def __init__(self, operator: Operator) -> None:
        """Wait for the queue that is the operator's first input."""
        self.queue: Blob = operator.inputs[0]
        self.patience = Patience(f"for the queue {self.queue.name!r}")

    def cancel(self) -> None:
        """Give up the wait of the present run, or of the one that is about to begin."""
        self.patience.give_up()
        queue = self.queue.value
        if isinstance(queue, WaitingQueue):
            queue.wake()

    def patiently(
        self, op: OpView, blobs: Sequence[Blob], act: Callable[[BlobsQueue], bool], timeout_s: float = 0.0
    ) -> bool:
        """Return what `act` on the queue gives, for records of these blobs; waits `timeout_s`, 0 is no limit.

        Raises:
            ShapeError: the queue has records of another width.
        """
        with self.patience.span(timeout_s):
            queue = self.queue.get(BlobsQueue)
            if len(blobs) != queue.width:
                raise op.error(ShapeError, f"{len(blobs)} blobs for the queue {self.queue.name!r} of {queue.width}")
            return act(queue)

    def refusal(self, op: OpView, found: str) -> TazzaError:
        """Return the error of a queue that is closed and, say, empty; it tells why, where that is known."""
        queue = self.queue.value
        why = queue.why if isinstance(queue, WaitingQueue) else ""
        return op.error(ClosedError, f"the queue {self.queue.name!r} is closed, and {found}{f': {why}' if why else ''}")


def show(status: Blob, value: bool) -> None:
    """Put whether something is so into a blob."""
    status.tensor().assign(np.array(value))


ON_QUEUE = blob("queue", type_name=QUEUE, role=Role.STATE)
RECORD = blob("X", type_name="*", variadic=True, role=Role.DATA, doc="a blob of each column")
LEFT = blob("Y", type_name="*", variadic=True, doc="what the place held before")
TAKEN = blob("Y", type_name="*", variadic=True, doc="a blob of each column")
STATUS = blob("status", DataType.BOOL, "", host=True, doc="whether the queue was closed, so that nothing was done")

CREATE_BLOBS_QUEUE = schema(
    "CreateBlobsQueue",
    """queue = an empty queue.

    A blob that has something in it already is given the new queue instead.""",
    outputs=[ON_QUEUE],
    args=[
        arg("capacity", int, 1, minimum=0, maximum=2**24, doc="records that it has room for"),
        arg("num_blobs", int, 1, minimum=0, maximum=2**16, doc="blobs of a record"),
        arg("enforce_unique_name", bool, False, doc="has no effect: it named blobs of Caffe2's"),
        arg("field_names", list[str], [], doc="names of the columns; none, or one for each"),
    ],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateBlobsQueue", capacity=2)
    >>> _ = run("EnqueueBlobs", queue, [1.0, 2.0])
    >>> run("DequeueBlobs", queue)
    array([1., 2.], dtype=float32)
    """,
)


@CREATE_BLOBS_QUEUE.validate
def create_blobs_queue_validate(op: OpView) -> None:
    names = len(op.field_names)
    op.require(names in (0, op.num_blobs), f"{names} field_names for num_blobs = {op.num_blobs}")


@host_kernel(CREATE_BLOBS_QUEUE)
def create_blobs_queue(op: OpView, queue: Blob) -> None:
    queue.set(BlobsQueue(op.capacity, op.num_blobs, op.field_names, queue.name))


ENQUEUE_BLOBS = schema(
    "EnqueueBlobs",
    "The record X goes into the queue, as soon as there is room.",
    inputs=[ON_QUEUE, RECORD],
    outputs=[LEFT],
    must_in_place={"Y": each("X")},
    relations=[as_many("Y", "X")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateBlobsQueue")
    >>> _ = run("EnqueueBlobs", queue, [1, 2])
    >>> len(queue)
    1
    """,
)


@host_kernel(ENQUEUE_BLOBS)
class EnqueueBlobs(QueueKernel):
    """Waits for room."""

    def run(self, op: OpView, Y: tuple[Blob, ...]) -> None:
        if not self.patiently(op, Y, lambda queue: queue.write(Y, self.patience)):
            raise self.refusal(op, "full")


SAFE_ENQUEUE_BLOBS = schema(
    "SafeEnqueueBlobs",
    "The record X goes into the queue, as soon as there is room; status = whether there is none, and will be none.",
    inputs=[ON_QUEUE, RECORD],
    outputs=[LEFT, STATUS],
    must_in_place={"Y": each("X")},
    relations=[as_many("Y", "X")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateBlobsQueue")
    >>> run("SafeEnqueueBlobs", queue, [1, 2], outputs=2)[1]
    array(False)
    """,
)


@host_kernel(SAFE_ENQUEUE_BLOBS)
class SafeEnqueueBlobs(QueueKernel):
    """Waits for room."""

    def run(self, op: OpView, Y: tuple[Blob, ...], status: Blob) -> None:
        show(status, not self.patiently(op, Y, lambda queue: queue.write(Y, self.patience)))


DEQUEUE_BLOBS = schema(
    "DequeueBlobs",
    "Y = the next record of the queue, as soon as there is one.",
    inputs=[ON_QUEUE],
    outputs=[TAKEN],
    args=[arg("timeout_secs", float, 0.0, doc="seconds after which it is an error that there is none; 0 is no limit")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateBlobsQueue", num_blobs=2)
    >>> _ = run("EnqueueBlobs", queue, [1, 2], [0.5], outputs=2)
    >>> run("DequeueBlobs", queue, outputs=2)
    (array([1, 2], dtype=int32), array([0.5], dtype=float32))
    """,
)


@host_kernel(DEQUEUE_BLOBS)
class DequeueBlobs(QueueKernel):
    """Waits for a record."""

    def run(self, op: OpView, Y: tuple[Blob, ...]) -> None:
        if not self.patiently(op, Y, lambda queue: queue.read(Y, self.patience), op.timeout_secs):
            raise self.refusal(op, "empty")


SAFE_DEQUEUE_BLOBS = schema(
    "SafeDequeueBlobs",
    """Y = the next record of the queue, as soon as there is one; status = whether there is none, and will be none.

    With `num_records` > 1 it is that many records, joined along the first axis, or as many as there are when the queue
    is closed; those without elements count and add nothing. Where a run fails, the next one begins with the
    records that it has taken.""",
    inputs=[ON_QUEUE],
    outputs=[TAKEN, STATUS],
    args=[arg("num_records", int, 1, minimum=1, doc="records to take at once")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateBlobsQueue", capacity=2)
    >>> for record in ([[1, 2]], [[3, 4], [5, 6]]): _ = run("EnqueueBlobs", queue, record)
    >>> run("SafeDequeueBlobs", queue, outputs=2, num_records=2)[0].tolist()
    [[1, 2], [3, 4], [5, 6]]
    """,
)


@host_kernel(SAFE_DEQUEUE_BLOBS)
class SafeDequeueBlobs(QueueKernel):
    """Waits for records; those that it has taken are kept until all of Y has them."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._from: BlobsQueue | None = None
        self._taken: list[list[object]] = []

    def run(self, op: OpView, Y: tuple[Blob, ...], status: Blob) -> None:
        one = op.num_records == 1
        found = self.patiently(
            op, Y, lambda queue: queue.read(Y, self.patience) if one else self._several(op, queue, Y)
        )
        show(status, not found)

    def _several(self, op: OpView, queue: BlobsQueue, Y: Sequence[Blob]) -> bool:
        """Take records one by one, since the queue may have room for fewer."""
        if queue is not self._from:
            self._from, self._taken = queue, []
        taken = self._taken
        while len(taken) < op.num_records and queue.take(taken, self.patience):
            pass
        if not taken:
            return False
        columns = zip(Y, zip(*taken, strict=True), strict=True)
        joined = [_joined(op, target.name, [_plain(target.name, one) for one in column]) for target, column in columns]
        for target, values in zip(Y, joined, strict=True):
            target.put(values)
        self._taken = []
        return True


def _plain(name: str, value: object) -> Array:
    """Return the elements of what is to come into a blob, a tensor."""
    held = Blob(name)
    _fill([held], [value])
    return held.get(Tensor).plain()


def _joined(op: OpView, name: str, parts: Sequence[Array]) -> Array:
    full = [part for part in parts if part.size]
    if len(full) <= 1:
        return full[0] if full else parts[0]
    kinds = {(part.shape[1:], part.dtype) for part in full}
    op.require(all(part.ndim > 0 for part in full), f"records of {name!r} have rank 0, so that they cannot be joined")
    op.require(len(kinds) == 1, f"records of {name!r} differ beyond their first extent: {sorted(map(str, kinds))}")
    return np.concatenate(full)


CLOSE_BLOBS_QUEUE = schema(
    "CloseBlobsQueue",
    "Whoever waits for the queue stops waiting; what is in it can still be taken out.",
    inputs=[ON_QUEUE],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> queue = run("CreateBlobsQueue")
    >>> _ = run("CloseBlobsQueue", queue)
    >>> queue.closed
    True
    """,
)


@host_kernel(CLOSE_BLOBS_QUEUE)
def close_blobs_queue(queue: Blob) -> None:
    queue.get(BlobsQueue).close()
