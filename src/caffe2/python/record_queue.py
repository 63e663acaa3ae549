"""`from caffe2.python import record_queue`: a queue of records between those who read data and those who need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from caffe2.python import core, workspace
from caffe2.python.dataio import Reader, Writer
from caffe2.python.schema import Field, Struct, from_column_list

__all__ = ["Field", "Reader", "RecordQueue", "Struct", "Writer", "from_column_list"]


class _QueueReader(Reader):
    def __init__(self, blobs_queue: Any, schema: Field, name: str | None = None) -> None:
        super().__init__(schema)
        self.blobs_queue = blobs_queue
        self.name = name

    def read(self, read_net: Any) -> tuple[Any, Any]:
        with core.NameScope(read_net.NextName(self.name)):
            names = [*self.schema().field_names(), read_net.NextName()]
            *fields, status = read_net.SafeDequeueBlobs(self.blobs_queue, names)
            return status, fields


class _QueueWriter(Writer):
    def __init__(self, blobs_queue: Any, schema: Any) -> None:
        self.blobs_queue = blobs_queue
        self._form = schema

    def write(self, writer_net: Any, fields: Any) -> Any:
        blobs = fields.field_blobs() if isinstance(fields, Field) else fields
        writer_net.CheckDatasetConsistency(blobs, [], fields=self._form.field_names())
        status = writer_net.NextName()
        writer_net.SafeEnqueueBlobs([self.blobs_queue, *blobs], [*blobs, status])
        return status


class RecordQueue:
    """A queue of records, and what reads it and writes it; it is made at once, in the present workspace."""

    def __init__(
        self,
        fields: Any,
        name: str | None = None,
        capacity: int = 1,
        enforce_unique_name: bool = False,
        num_threads: int = 1,
    ) -> None:
        """Hold so many records of a form, a Struct or a list of names of fields."""
        assert isinstance(fields, list | Struct), "fields must be either a Struct or a list of raw field names."
        form: Any = from_column_list(cast("list[str]", fields)) if isinstance(fields, list) else fields
        self.schema = form
        self.name = name if name else "queue"
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

    def build(self, reader: Any, process: Callable[..., Any] | None = None) -> tuple[Any, Any, Any, Any]:
        """Return the reader, a step of threads that fill the queue, one that closes it, and the form of the records.

        `process(net, record)` adds to a net what is done with a record before it goes in, and returns the new one.
        """
        steps = [self._producer(number, reader, process) for number in range(self.num_threads)]
        producers = core.execution_step("producers", steps, concurrent_substeps=True)
        return self.reader, producers, self.exit_step, self.schema

    def _producer(self, number: int, reader: Any, process: Callable[..., Any] | None) -> Any:
        read_net, write_net = core.Net(f"reader_{number}"), core.Net(f"queue_writer{number}")
        should_stop, fields = reader.read_record(read_net)
        record = fields if process is None else process(write_net, fields)
        self.writer.write(write_net, record.field_blobs())
        steps = [
            core.execution_step(f"reader_{number}", read_net),
            core.execution_step(f"queue_writer{number}", write_net),
        ]
        return core.execution_step(f"producer_{number}", steps, should_stop_blob=should_stop)
