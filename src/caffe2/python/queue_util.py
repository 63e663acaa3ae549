"""Queues of batches between nets that run side by side."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from caffe2.python import core, dataio
from caffe2.python.schema import Field
from caffe2.python.task import TaskGroup

logger = logging.getLogger(__name__)


class _QueueReader(dataio.Reader):
    def __init__(self, wrapper: QueueWrapper, num_dequeue_records: int = 1) -> None:
        super().__init__(wrapper.schema())
        self._wrapper = wrapper
        self._num_dequeue_records = num_dequeue_records

    def setup_ex(self, init_net: Any, exit_net: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        exit_net.CloseBlobsQueue([self._wrapper.queue()], 0)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Any], Any, Any]:
        del local_finish_net
        self._wrapper.told_of_reader(local_init_net)
        net = core.Net("dequeue")
        names = self.schema().field_names()
        fields, status = dequeue(
            net, self._wrapper.queue(), len(names), field_names=names, num_records=self._num_dequeue_records
        )
        return [net], status, fields

    def read(self, net: Any) -> tuple[Any, Any]:  # pyright: ignore[reportIncompatibleMethodOverride] -- as above
        nets, _, fields = self.read_ex(net, None)
        return nets, fields


class _QueueWriter(dataio.Writer):
    def __init__(self, wrapper: QueueWrapper) -> None:
        self._wrapper = wrapper

    def setup_ex(self, init_net: Any, exit_net: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- as above
        exit_net.CloseBlobsQueue([self._wrapper.queue()], 0)

    def write_ex(self, fields: Any, local_init_net: Any, local_finish_net: Any, status: Any) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride] -- as above
        del local_finish_net
        self._wrapper.told_of_writer(self.schema(), local_init_net)
        net = core.Net("enqueue")
        enqueue(net, self._wrapper.queue(), fields, status)
        return [net]


class QueueWrapper(dataio.Pipe):
    """A pipe over a queue that is there."""

    def __init__(self, handler: Any, schema: Field | None = None, num_dequeue_records: int = 1) -> None:
        """Make a pipe over the blob of a queue; so many batches are taken at once, and joined."""
        super().__init__(schema, TaskGroup.LOCAL_SETUP)
        self._queue = handler
        self._num_dequeue_records = num_dequeue_records

    def reader(self) -> dataio.Reader:
        """Return a new reader."""
        return _QueueReader(self, num_dequeue_records=self._num_dequeue_records)

    def writer(self) -> dataio.Writer:
        """Return a new writer."""
        return _QueueWriter(self)

    def queue(self) -> Any:
        """Return the blob of the queue."""
        return self._queue

    def told_of_reader(self, init_net: Any) -> None:
        """Count a net that reads."""
        self._new_reader(init_net)

    def told_of_writer(self, schema: Any, init_net: Any) -> None:
        """Count a net that writes, and learn the form of the records from the first."""
        self._new_writer(schema, init_net)


class Queue(QueueWrapper):
    """A pipe over a queue of its own."""

    def __init__(
        self, capacity: int, schema: Field | None = None, name: str = "queue", num_dequeue_records: int = 1
    ) -> None:
        """Make a pipe that holds so many batches; who writes more waits."""
        net = core.Net(name)
        super().__init__(net.AddExternalInput(net.NextName("handler")), schema, num_dequeue_records)
        self.capacity = capacity
        self._setup_done = False

    def setup(self, global_init_net: Any) -> None:
        """Make the queue."""
        assert self._schema, "This queue does not have a schema."
        self._setup_done = True
        names = self._schema.field_names()
        global_init_net.CreateBlobsQueue(
            [], [self._queue], capacity=self.capacity, num_blobs=len(names), field_names=names
        )


def enqueue(net: Any, queue: Any, data_blobs: Sequence[Any], status: Any = None) -> Any:
    """Add to a net what puts blobs into a queue; returns the blob that is true when the queue is closed."""
    told = net.NextName("status") if status is None else status
    return net.SafeEnqueueBlobs([queue, *data_blobs], [*data_blobs, told])[-1]


def dequeue(
    net: Any,
    queue: Any,
    num_blobs: int,
    status: Any = None,
    field_names: Sequence[str] | None = None,
    num_records: int = 1,
) -> tuple[Any, Any]:
    """Add to a net what takes blobs out of a queue; returns them, and the blob that is true when it is closed."""
    if field_names is None:
        names = [net.NextName("data", position) for position in range(num_blobs)]
    else:
        assert len(field_names) == num_blobs, f"{len(field_names)} names of {num_blobs} blobs"
        names = [net.NextName(name) for name in field_names]
    told = net.NextName("status") if status is None else status
    *fields, closed = net.SafeDequeueBlobs(queue, [*names, told], num_records=num_records)
    return fields, closed


def close_queue(step: Any, *queues: Any) -> Any:
    """Return a step that runs another, and closes queues behind it."""
    net = core.Net("close_queue_net")
    for queue in queues:
        net.CloseBlobsQueue([queue], 0)
    return core.execution_step(f"{net}_wraper_step", [step, core.execution_step(f"{net}_step", net)])
