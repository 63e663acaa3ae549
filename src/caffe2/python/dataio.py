"""`from caffe2.python import dataio`: what reads records, batch by batch, and what writes them.

A reader or a writer is asked for nets: some that run once before and once behind all others (`setup_ex`), some that run
for each batch (`read_ex`, `write_ex`). A blob that becomes true ends the reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from caffe2.python import core
from caffe2.python.schema import Field, Struct, from_blob_list

__all__ = [
    "CompositeReader",
    "CompositeReaderBuilder",
    "CountUntil",
    "CounterReader",
    "Field",
    "Pipe",
    "PipedReaderBuilder",
    "Reader",
    "ReaderBuilder",
    "ReaderWithDelay",
    "ReaderWithLimit",
    "ReaderWithLimitBase",
    "ReaderWithTimeLimit",
    "Struct",
    "Writer",
    "from_blob_list",
]

NANOSECONDS = 1_000_000_000


class Reader:
    """Reads batches of records; one's own defines `read`, or `setup_ex` and `read_ex`."""

    def __init__(self, schema: Field | None = None) -> None:
        """Make a reader of records of a form, which may be unknown."""
        if schema is not None:
            assert isinstance(schema, Field), f"a record, not {schema!r}"
        self._schema = schema

    def schema(self) -> Any:
        """Return the form of the records."""
        assert self._schema is not None, "Schema not provided for this reader."
        return self._schema

    def _set_schema(self, schema: Field) -> None:
        self._schema = schema

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Add to the nets that run once, before and behind all reading."""

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Any], Any, Any]:
        """Return nets that read a batch, the blob that ends the reading, and the blobs of the batch."""
        del local_init_net, local_finish_net
        net = core.Net("reader_body")
        return ([net], *self.read(net))

    def read_record_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Any], Any, Any]:
        """Return as `read_ex`, and the batch as a record where its form is known."""
        nets, should_stop, fields = self.read_ex(local_init_net, local_finish_net)
        return nets, should_stop, self._record(fields)

    def _record(self, fields: Any) -> Any:
        return fields if self._schema is None else from_blob_list(self._schema, fields)

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """Add to a net what reads a batch; returns the blob that ends the reading, and the blobs of the batch."""
        del read_net
        raise NotImplementedError("Readers must implement `read`.")

    def reset(self, net: Any) -> None:
        """Add to a net what lets the reading begin anew."""
        del net
        raise NotImplementedError("This reader cannot be resetted.")

    def read_record(self, read_net: Any) -> tuple[Any, Any]:
        """Add to a net as `read`; the batch is a record where its form is known."""
        should_stop, fields = self.read(read_net)
        return should_stop, self._record(fields)

    def execution_step(self, reader_net_name: str | None = None, external_should_stop: Any = None) -> tuple[Any, Any]:
        """Return a step that reads to the end, or until another blob is true as well, and the record of a batch."""
        net = core.Net("reader" if reader_net_name is None else reader_net_name)
        should_stop, fields = self.read_record(net)
        if external_should_stop is not None:
            should_stop = net.Or([external_should_stop, should_stop])
        return core.execution_step(f"{reader_net_name}_step", net, should_stop_blob=should_stop), fields


class Writer:
    """Writes batches of records; one's own defines `write`, or `setup_ex` and `write_ex`."""

    _schema: Any = None

    def schema(self) -> Any:
        """Return the form of the records, which follows from the first that is written."""
        return self._schema

    def write(self, writer_net: Any, fields: Any) -> None:
        """Add to a net what writes a batch."""
        del writer_net, fields
        raise NotImplementedError("Writers must implement write.")

    def _blobs(self, fields: Any) -> Any:
        if not isinstance(fields, Field):
            return fields
        self._schema = fields
        return fields.field_blobs()

    def write_record(self, writer_net: Any, fields: Any) -> None:
        """Add to a net what writes a record."""
        self.write(writer_net, self._blobs(fields))

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Add to the nets that run once, before and behind all writing."""
        self.commit(finish_net)

    def write_ex(self, fields: Any, local_init_net: Any, local_finish_net: Any, stop_blob: Any) -> list[Any]:
        """Return nets that write a batch."""
        del local_init_net, local_finish_net, stop_blob
        net = core.Net("write_net")
        self.write(net, fields)
        return [net]

    def write_record_ex(
        self, fields: Any, local_init_net: Any, local_finish_net: Any, stop_blob: Any = None
    ) -> tuple[list[Any], Any]:
        """Return nets that write a record, and the blob that says that nobody takes more."""
        blobs = self._blobs(fields)
        stop = local_init_net.NextName("dequeue_status") if stop_blob is None else stop_blob
        return self.write_ex(blobs, local_init_net, local_finish_net, stop), stop

    def commit(self, finish_net: Any) -> None:
        """Add to a net what ends the writing."""


class ReaderBuilder:
    """Makes readers in other processes than the one that describes them."""

    def schema(self) -> Any:
        """Return the form of the records."""
        raise NotImplementedError

    def setup(self, **kwargs: Any) -> Any:
        """Prepare what the readers share; returns the blobs that say that data have ended."""
        raise NotImplementedError

    def new_reader(self, **kwargs: Any) -> Reader:
        """Return a reader."""
        raise NotImplementedError


class PipedReaderBuilder(ReaderBuilder):
    """Readers of what comes out of a pipe, into which others read."""

    def __init__(self, builder: ReaderBuilder, piper: Callable[..., Any]) -> None:
        """Make a builder over another; `piper` takes a reader, and gives a reader or a pipe."""
        self._builder = builder
        self._piper = piper

    def schema(self) -> Any:
        """Return the form of the records."""
        return self._builder.schema()

    def setup(self, **kwargs: Any) -> Any:
        """Prepare the builder below."""
        return self._builder.setup(**kwargs)

    def new_reader(self, **kwargs: Any) -> Reader:
        """Return a reader of what comes out."""
        output = self._piper(reader=self._builder.new_reader(**kwargs), **kwargs)
        return output if isinstance(output, Reader) else output.reader()


class Pipe:
    """What has writers at one end and readers at the other."""

    def __init__(self, schema: Field | None = None, obj_key: str | None = None) -> None:
        """Make a pipe for records of a form, which may be unknown."""
        self._num_writers = 0
        self._num_readers = 0
        self._schema = schema
        self._obj_key = obj_key

    def schema(self) -> Any:
        """Return the form of the records."""
        return self._schema

    def setup(self, global_init_net: Any) -> None:
        """Add to the net that runs once before all others."""

    def reader(self) -> Reader:
        """Return a new reader."""
        raise NotImplementedError

    def writer(self) -> Writer:
        """Return a new writer."""
        raise NotImplementedError

    def num_readers(self) -> int:
        """Return how many nets read so far."""
        return self._num_readers

    def num_writers(self) -> int:
        """Return how many nets write so far."""
        return self._num_writers

    def _new_writer(self, writer_schema: Any, writer_init_net: Any) -> Any:
        if writer_schema is not None and self._schema is None:
            self._schema = writer_schema
        self._num_writers += 1
        if self._obj_key is not None:
            writer_init_net.add_attribute(self._obj_key, self)

    def _new_reader(self, reader_init_net: Any) -> None:
        self._num_readers += 1
        if self._obj_key is not None:
            reader_init_net.add_attribute(self._obj_key, self)


def _false(net: Any, blob: Any = 1) -> Any:
    return net.ConstantFill([], blob, shape=[], value=False, dtype=core.DataType.BOOL)


class CounterReader(Reader):
    """Counts, without an end: 0, 1, 2 ..."""

    def __init__(self) -> None:
        """Make a reader of one column, `iter`."""
        super().__init__(schema=Struct(("iter", int)))
        self.counter: Any = None
        self.should_stop: Any = None

    def setup_ex(self, global_init_net: Any, global_finish_net: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        """Make the counter."""
        del global_finish_net
        if self.counter is None:
            self.counter = global_init_net.CreateCounter([], init_count=0)
            self.should_stop = global_init_net.ConstantFill([], shape=[], dtype=core.DataType.BOOL, value=False)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Any], Any, Any]:
        """Return the net that counts."""
        del local_init_net, local_finish_net
        net = core.Net("limited_reader_counter")
        return [net], self.should_stop, [net.CountUp([self.counter], 1)]


class ReaderWithLimitBase(Reader):
    """Reads from another reader as long as a condition holds."""

    def __init__(self, reader: Reader) -> None:
        """Limit a reader."""
        super().__init__(reader._schema)
        self.reader = reader
        self.net = core.Net("reader_with_limit")
        self._data_finished = self.net.AddExternalInput(self.net.NextName("data_finished"))
        self.should_stop: Any = None

    def setup_ex(self, global_init_net: Any, global_finish_net: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        """Prepare the reader below, and the condition."""
        _false(global_init_net, [self._data_finished])
        self.reader.setup_ex(global_init_net, global_finish_net)
        self.setup_limiter(global_init_net, global_finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Any], Any, Any]:
        """Return the nets of the reader below, between those that look at the condition."""
        condition = core.Net("limited_reader_condition")
        should_stop = self.check_limiter_condition(condition)
        nets, finished, fields = self.reader.read_ex(local_init_net, local_finish_net)
        condition.add_attribute("should_stop", should_stop)
        after = core.Net("limited_reader_post")
        after.Copy([finished], [should_stop])
        after.Or([self._data_finished, finished], [self._data_finished])
        return [condition, *nets, after], should_stop, fields

    def setup_limiter(self, global_init_net: Any, global_finish_net: Any) -> None:
        """Add to the nets that run once what the condition needs."""
        raise NotImplementedError("Subclass must implement `setup_limiter`")

    def check_limiter_condition(self, stop_condition_net: Any) -> Any:
        """Add to a net what looks at the condition; returns the blob that is true when it no longer holds."""
        raise NotImplementedError("Subclass must implement `check_limiter_condition`")

    def data_finished(self) -> Any:
        """Return the blob that is true when the reader below had no more, rather than that the limit was reached."""
        return self._data_finished


class ReaderWithLimit(ReaderWithLimitBase):
    """Reads so many batches; None for all."""

    def __init__(self, reader: Reader, num_iter: int | None = 1) -> None:
        """Limit a reader to a number of batches."""
        super().__init__(reader)
        self.counter: Any = None
        self.num_iter = num_iter
        if num_iter is not None:
            self.counter = self.net.AddExternalInput(self.net.NextName("counter"))

    def setup_limiter(self, global_init_net: Any, global_finish_net: Any) -> None:
        """Make the counter."""
        del global_finish_net
        if self.counter is not None:
            global_init_net.CreateCounter([], [self.counter], init_count=int(self.num_iter or 0))

    def check_limiter_condition(self, stop_condition_net: Any) -> Any:
        """Count down."""
        if self.counter is None:
            return _false(stop_condition_net)
        return stop_condition_net.CountDown([self.counter], 1)


def CountUntil(num_iter: int) -> ReaderWithLimit:
    """Return a reader that counts so far."""
    return ReaderWithLimit(CounterReader(), num_iter)


class ReaderWithTimeLimit(ReaderWithLimitBase):
    """Reads for so many seconds; 0 for as long as there is something to read."""

    def __init__(self, reader: Reader, duration: float = 0) -> None:
        """Limit a reader to a time in seconds."""
        super().__init__(reader)
        self.timer: Any = None
        self.duration = duration
        self.duration_ns_blob: Any = None

    def setup_limiter(self, global_init_net: Any, global_finish_net: Any) -> None:
        """Start the clock, and stop it behind all reading."""
        if self.duration <= 0:
            return
        self.timer = global_init_net.TimerBegin([], counter_name="epoch_timer")
        started = global_init_net.TimerGet(self.timer)
        self.duration_ns_blob = global_init_net.ConstantFill([started], value=int(self.duration * NANOSECONDS))
        global_finish_net.TimerEnd([self.timer], [])

    def check_limiter_condition(self, stop_condition_net: Any) -> Any:
        """Look at the clock."""
        if self.duration <= 0:
            return _false(stop_condition_net)
        elapsed = stop_condition_net.TimerGet(self.timer)
        return stop_condition_net.GE([elapsed, self.duration_ns_blob], 1)


class ReaderWithDelay(Reader):
    """Waits before each batch: readers are tested with it."""

    def __init__(self, reader: Reader, delay: float) -> None:
        """Let a reader wait so many seconds."""
        super().__init__(reader._schema)
        self.reader = reader
        self.delay = delay

    def setup_ex(self, global_init_net: Any, global_finish_net: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        """Prepare the reader below."""
        self.reader.setup_ex(global_init_net, global_finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Any], Any, Any]:
        """Return the net that waits and reads."""
        del local_init_net, local_finish_net
        net = core.Net("reader_body")

        def sleep_op(*args: Any, **argd: Any) -> None:
            del args, argd
            time.sleep(self.delay)

        net.Python(sleep_op)([], [])
        return ([net], *self.reader.read(net))


class CompositeReader(Reader):
    """Reads from several readers at once, into one record; it ends with the first that does."""

    def __init__(self, names: Sequence[str], readers: Sequence[Reader]) -> None:
        """Join readers, whose records become fields of these names."""
        assert len(names) == len(readers), f"{len(names)} names of {len(readers)} readers"
        super().__init__(schema=Struct(*((name, one.schema()) for name, one in zip(names, readers, strict=True))))
        self._names = names
        self._readers = readers

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Prepare the readers."""
        for reader in self._readers:
            reader.setup_ex(init_net, finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Any], Any, Any]:
        """Return the nets of all readers; when one has ended, those behind it read no more."""
        parts = [reader.read_record_ex(local_init_net, local_finish_net) for reader in self._readers]
        last = parts[-1][1]
        nets: list[Any] = []
        for name, (own, should_stop, _) in zip(self._names, parts, strict=True):
            nets += own
            if str(should_stop) != str(last):
                ended = core.Net(f"{name}_stop")
                ended.Or([last, should_stop], [last])
                nets.append(ended)
        return nets, last, [blob for _, _, record in parts for blob in record.field_blobs()]

    def reset(self, net: Any) -> None:
        """Add to a net what lets all readers begin anew."""
        for reader in self._readers:
            reader.reset(net)


class CompositeReaderBuilder(ReaderBuilder):
    """Makes readers that read from several at once."""

    def __init__(self, names: Sequence[str], reader_builders: Sequence[ReaderBuilder]) -> None:
        """Join builders; the records of their readers become fields of these names."""
        self._names = names
        self._reader_builders = reader_builders
        self._schema = Struct(*((name, one.schema()) for name, one in zip(names, reader_builders, strict=True)))

    def schema(self) -> Any:
        """Return the form of the records."""
        return self._schema

    def setup(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare all builders; returns the blobs that say that data have ended."""
        found: dict[str, Any] = {}
        for builder in self._reader_builders:
            own: dict[str, Any] = builder.setup(**kwargs)
            twice = [name for name in own if name in found]
            assert not twice, f"two readers say by one name that data have ended: {twice}"
            found.update(own)
        return found

    def new_reader(self, **kwargs: Any) -> CompositeReader:
        """Return a reader of all; a builder may also give what has a `reader`: a pipe, a data set."""
        made: list[Any] = [builder.new_reader(**kwargs) for builder in self._reader_builders]
        for one in made:
            if not isinstance(one, Reader) and not hasattr(one, "reader"):
                raise ValueError(f"reader must be an instance of Reader or Pipe, not {one!r}")
        return CompositeReader(self._names, [one if isinstance(one, Reader) else one.reader() for one in made])
