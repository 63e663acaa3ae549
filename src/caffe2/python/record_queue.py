"""Queues of records: threads read into it, and a reader reads from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from caffe2.python import core, workspace
from caffe2.python.dataio import Reader, Writer
from caffe2.python.dataset import form_of
from caffe2.python.schema import Field


class _QueueReader(Reader):
    """Reads records from a queue, until it is closed and empty."""

    def __init__(self, blobs_queue: Any, schema: Any, name: str | None = None) -> None:
        super().__init__(schema)
        self.blobs_queue = blobs_queue
        self.name = name
        self._names = schema.field_names()

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """Add to a net what takes a record."""
        with core.NameScope(read_net.NextName(self.name)):
            status = read_net.NextName()
            fields = read_net.SafeDequeueBlobs(self.blobs_queue, [*self._names, status])
            return fields[-1], fields[:-1]


class _QueueWriter(Writer):
    """Writes records into a queue."""

    def __init__(self, blobs_queue: Any, schema: Any) -> None:
        self.blobs_queue = blobs_queue
        self.schema: Any = schema

    def write(self, writer_net: Any, fields: Any) -> Any:
        """Add to a net what checks a record and puts it into the queue; returns the blob that says: closed."""
        blobs: list[Any] = fields.field_blobs() if isinstance(fields, Field) else fields
        writer_net.CheckDatasetConsistency(blobs, [], fields=self.schema.field_names())
        status = writer_net.NextName()
        writer_net.SafeEnqueueBlobs([self.blobs_queue, *blobs], [*blobs, status])
        return status


class RecordQueue:
    """A queue of records, which is made in the present workspace at once."""

    def __init__(
        self,
        fields: Any,
        name: str | None = None,
        capacity: int = 1,
        enforce_unique_name: bool = False,
        num_threads: int = 1,
    ) -> None:
        """Make a queue for records of a `schema.Struct`, or of columns of these names."""
        form = form_of(fields)
        self.schema = form
        self.name = name or "queue"
        self.num_threads = num_threads
        init_net = core.Net(f"{self.name}/init_net")
        self.blobs_queue = init_net.CreateBlobsQueue(
            [], 1, capacity=capacity, num_blobs=len(form.field_names()), enforce_unique_name=enforce_unique_name
        )
        workspace.RunNetOnce(init_net)
        self.writer = _QueueWriter(self.blobs_queue, form)
        self.reader = _QueueReader(self.blobs_queue, form, f"{self.name}_reader")
        exit_net = core.Net(f"{self.name}/exit_net")
        exit_net.CloseBlobsQueue(self.blobs_queue, 0)
        self.exit_step = core.execution_step(f"{exit_net}_close_step", exit_net)

    def build(self, reader: Any, process: Callable[[Any, Any], Any] | None = None) -> tuple[Any, Any, Any, Any]:
        """Return a reader of the queue, the step that fills it, the step that closes it, and the form of records.

        Args:
            reader: what is read into the queue, on as many threads as the queue was made for.
            process: makes of a net and a record another record, before it is put into the queue.
        """
        producers: list[Any] = []
        for thread in range(self.num_threads):
            read_net = core.Net(f"reader_{thread}")
            should_stop, fields = reader.read_record(read_net)
            read_step = core.execution_step(f"reader_{thread}", read_net)
            write_net = core.Net(f"queue_writer{thread}")
            record = process(write_net, fields) if process else fields
            self.writer.write(write_net, record.field_blobs())
            write_step = core.execution_step(f"queue_writer{thread}", write_net)
            steps = [read_step, write_step]
            producers.append(core.execution_step(f"producer_{thread}", steps, should_stop_blob=should_stop))
        step = core.execution_step("producers", producers, concurrent_substeps=True)
        return self.reader, step, self.exit_step, self.schema
