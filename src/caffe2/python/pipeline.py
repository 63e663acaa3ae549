"""Tasks that read, process and write records on several threads, until a reader or a writer says: the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from caffe2.python import core, queue_util
from caffe2.python.dataio import Reader, Writer
from caffe2.python.net_builder import NetBuilder, ops
from caffe2.python.schema import Field, as_record
from caffe2.python.task import Node, Task, TaskGroup

DEFAULT_QUEUE_CAPACITY = 100


class Output:
    """What a processor gives: nets, the record that they make, and a blob that says that there is an end."""

    def __init__(self, nets: Any = None, record: Any = None, should_stop: Any = None) -> None:
        """Take nets, or those that were added to the present `NetBuilder`."""
        children = NetBuilder.current().get()
        assert nets is None or len(children) == 0, "Cannot both use `ops` syntax and return a list of nets."
        given = children if nets is None else nets
        self.nets: list[Any] = [given] if isinstance(given, core.Net) else list(given or ())
        self.record: Any = None if record is None else as_record(record)
        self.should_stop = should_stop


def _init_output(output: Any, capacity: int | None, global_init_net: Any, global_exit_net: Any) -> tuple[Any, Any]:
    """Return what is written to, unless it is a writer that was given, and a writer."""
    if output is None:
        queue: Any = queue_util.Queue(capacity=DEFAULT_QUEUE_CAPACITY if capacity is None else capacity)
        writer = queue.writer()
    else:
        assert capacity is None, "capacity would not be used."
        if isinstance(output, Writer):
            queue, writer = None, output
        elif hasattr(output, "writer"):
            queue, writer = output, output.writer()
        else:
            raise ValueError("output must be a reader, queue or stream.")
    writer.setup_ex(global_init_net, global_exit_net)
    return queue, writer


def make_processor(processor: Any, reader: Any = None) -> Any:
    """Return what processes records: a function as it is, a net as a `NetProcessor`, nothing for None."""
    if processor is None:
        return lambda rec: rec  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
    if isinstance(processor, core.Net):
        return NetProcessor(processor)
    if reader is not None and hasattr(processor, "schema_func"):
        processor.schema = lambda: processor.schema_func(reader)
    return processor


def normalize_processor_output(output: Any) -> Output:
    """Return what a processor gave, a record, nets, or a tuple of some of these, as an `Output`."""
    if isinstance(output, Output):
        return output
    if isinstance(output, Field):
        return Output(record=output)
    if not isinstance(output, tuple):
        return Output(output)
    parts = cast("tuple[Any, ...]", output)
    if len(parts) == 2 and isinstance(parts[0], Field) and isinstance(parts[1], core.BlobReference):
        return Output(None, *parts)
    return Output(*parts)


def pipe(
    input: Any,
    output: Any = None,
    num_threads: int = 1,
    processor: Any = None,
    name: str | None = None,
    capacity: int | None = None,
    group: Any = None,
    num_runtime_threads: int | None = 1,
) -> Any:
    """Add a task that reads `input`, lets a processor change the records, and writes them; returns what is written to.

    Args:
        input: a reader, or what has one (a queue, a data set).
        output: a writer, or what has one; a new queue by default.
        num_threads: threads, each with nets of its own. With 0 there is no task, but a reader is returned.
        processor: makes of a record another one; a net with records for its inputs and outputs is copied each time.
        name: of the task.
        capacity: of the new queue, 100 by default.
        group: to which the task is added; the present one by default.
        num_runtime_threads: threads that share nets. Only one of the two may be above 1.
    """
    return _pipe_step(input, output, num_threads, processor, name, capacity, group, num_runtime_threads)[0]


def pipe_and_output(
    input: Any,
    output: Any = None,
    num_threads: int = 1,
    processor: Any = None,
    name: str | None = None,
    capacity: int | None = None,
    group: Any = None,
    num_runtime_threads: int | None = 1,
    final_outputs: Any = None,
) -> tuple[Any, Any]:
    """Add a task as `pipe`; returns what is written to, and what the task gives at its end, to be fetched."""
    assert num_threads > 0, "without threads there is no task"
    result, task = _pipe_step(
        input, output, num_threads, processor, name, capacity, group, num_runtime_threads, final_outputs
    )
    if final_outputs is None:
        return result, None
    given = task.outputs()
    return result, given if isinstance(final_outputs, (list, tuple)) else given[0]


def processor_name(processor: Any) -> str:
    """Return the name of a processor, or that of its class."""
    return processor.name if hasattr(processor, "name") else type(processor).__name__


def _profiled(name: str, output: Any) -> str:
    """Return what the time of a pipe is counted under; the middle one is what Caffe2 wrote for whatever was read."""
    target = processor_name(output) if output else "NoOutput"
    return "/".join([str(Node.current()), "pipe", name, "builtin_function_or_method", target])


def _false(net: Any, blob: Any) -> None:
    net.ConstantFill([], [blob], shape=[], value=False, dtype=core.DataType.BOOL)


def _add_body(nets: Iterable[Any], status: Any, counter_name: str, before: Any = None) -> None:
    """Add the step that reads and writes until `status`, between what starts and stops a clock."""
    start, end = core.Net("timer_start"), core.Net("timer_end")
    timer = start.TimerBegin([], counter_name=counter_name)
    end.TimerEnd(timer, [])
    if before is not None:
        ops.net(before)
    ops.net(core.execution_step("body", [start, *nets, end], should_stop_blob=status))
    ops.net(end)


def _runtime_threads_task(
    name: str, group: Any, final_outputs: Any, reader: Any, num_threads: Any, output: Any, capacity: int | None
) -> tuple[Any, Any]:
    """Add a task whose nets several threads run."""
    counter_name = _profiled(name, output)
    with Task(name=name, group=group, outputs=final_outputs, num_instances=num_threads) as task:
        exit_net, init_net = core.Net("pipe:exit"), core.Net("pipe:init")
        reader.setup_ex(init_net, exit_net)
        own_init, own_exit = core.Net("pipe:instance:init"), core.Net("pipe:instance:exit")
        nets, status, record = reader.read_record_ex(own_init, own_exit)
        _false(own_init, status)
        queue, writes = None, []
        if record is not None:
            queue, writer = _init_output(output, capacity, init_net, exit_net)
            writes, _ = writer.write_record_ex(record, own_init, own_exit, status)
        with ops.task_init():
            ops.net(init_net)
        with ops.task_instance_init():
            ops.net(own_init)
        _add_body([*nets, *writes], status, counter_name)
        with ops.task_instance_exit():
            ops.net(own_exit)
        with ops.task_exit():
            ops.net(exit_net)
    return queue, task


def _static_threads_task(
    name: str, group: Any, final_outputs: Any, reader: Any, num_threads: int, output: Any, capacity: int | None
) -> tuple[Any, Any]:
    """Add a task with nets for each thread."""
    counter_name = _profiled(name, output)
    with Task(name=name, group=group, outputs=final_outputs) as task:
        exit_net, init_net = core.Net("exit"), core.Net("init")
        reader.setup_ex(init_net, exit_net)
        queue, writer = None, None
        steps: list[Any] = []
        for thread in range(num_threads):
            with NetBuilder(name=f"t:{thread}") as builder:
                own_init, own_exit = core.Net("init"), core.Net("exit")
                nets, status, record = reader.read_record_ex(own_init, own_exit)
                _false(own_init, status)
                writes: list[Any] = []
                if record is not None:
                    if writer is None:
                        with NetBuilder(_fullname=task.name):  # else the queue would be called after a thread
                            queue, writer = _init_output(output, capacity, init_net, exit_net)
                    writes, _ = writer.write_record_ex(record, own_init, own_exit, status)
                _add_body([*nets, *writes], status, counter_name, own_init)
                ops.net(own_exit)
            steps.append(core.to_execution_step(builder))
        ops.net(init_net)
        ops.net(core.execution_step("body", steps, concurrent_substeps=True))
        ops.net(exit_net)
    return queue, task


def _pipe_step(
    input: Any,
    output: Any = None,
    num_threads: int = 1,
    processor: Any = None,
    name: str | None = None,
    capacity: int | None = None,
    group: Any = None,
    num_runtime_threads: int | None = None,
    final_outputs: Any = None,
) -> tuple[Any, Any]:
    shared = num_runtime_threads
    assert num_threads <= 1 or (shared or 0) <= 1, "Only one of num_threads or num_runtime_threads must be set."
    if isinstance(input, Reader):
        reader: Any = input
    elif hasattr(input, "reader"):
        reader = input.reader()
    else:
        raise ValueError(f"Input must be a reader, queue or stream. Got {type(input)}")
    if processor is not None:
        reader = ProcessingReader(reader, processor)
    if num_threads == 0 or shared == 0:
        assert output is None, "without threads nothing is written"
        return reader, None
    if name is None:
        name = _task_name(input, output, processor)
    if num_threads > 1:
        return _static_threads_task(name, group, final_outputs, reader, num_threads, output, capacity)
    return _runtime_threads_task(name, group, final_outputs, reader, shared, output, capacity)


def _task_name(input: Any, output: Any, processor: Any) -> str:
    if processor is not None:
        return processor_name(processor)
    return f"pipe_from:{processor_name(input)}" if output is None else f"pipe_into:{processor_name(output)}"


class ProcessingReader(Reader):
    """Reads from another reader, and gives what a processor makes of its records."""

    def __init__(self, reader: Any, processor: Any) -> None:
        """Put a processor behind a reader."""
        super().__init__()
        self.reader = reader
        self.processor = make_processor(processor, reader)

    def schema(self) -> Any:
        """Return the form of what the processor makes."""
        return self.processor.schema()

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Prepare the reader below."""
        self.reader.setup_ex(init_net, finish_net)

    def read_ex(self, init_net: Any, exit_net: Any) -> tuple[list[Any], Any, Any]:  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        """Return the nets that read and process a batch; the processor may end the reading too."""
        nets, status, record = self.reader.read_record_ex(init_net, exit_net)
        with NetBuilder() as builder:
            result = normalize_processor_output(self.processor(record))
        nets += result.nets
        stops = [stop for stop in (result.should_stop, builder._stop_blob) if stop]
        if stops:
            stop_net = core.Net("stop_net")
            for stop in stops:
                stop_net.Or([status, stop], [status])
            nets.append(stop_net)
        if hasattr(self.processor, "setup"):
            init_net.add_attribute(TaskGroup.LOCAL_SETUP, self.processor)
        self._set_schema(result.record)
        return nets, status, result.record.field_blobs() if result.record else None


class NetProcessor:
    """A processor that is a net: it is copied each time, bound to the record that comes in."""

    def __init__(
        self, net: Any, stop_signal: Any = None, thread_init_nets: Any = None, name: str | None = None
    ) -> None:
        """Take a net with records for its inputs and outputs.

        Args:
            net: see above.
            stop_signal: a blob of it that says that there is an end.
            thread_init_nets: nets that run once before each copy, and are copied with it.
            name: of the processor; that of the net by default.
        """
        assert isinstance(net, core.Net), f"a net, not {net}"
        assert stop_signal is None or isinstance(stop_signal, core.BlobReference), f"a blob, not {stop_signal}"
        self.name = name or str(net)
        self.thread_init_nets: list[Any] = thread_init_nets or []
        self.net = net
        self._stop_signal = stop_signal
        self._blob_maps: list[dict[str, str]] = []
        self._frozen = False
        self._cloned_init_nets: list[Any] = []

    def schema(self) -> Any:
        """Return the form of what goes out."""
        return self.net.output_record()

    def setup(self, init_net: Any) -> list[Any]:
        """Return the copies of the nets that run before; there are no more copies from now on."""
        del init_net
        self._frozen = True
        made, self._cloned_init_nets = self._cloned_init_nets, []
        return made

    def __call__(self, rec: Any) -> Output:
        """Return a copy that is bound to a record."""
        assert not self._frozen, "it is in use already"
        prefix = f"{NetBuilder.current().name}/"
        renamed: dict[Any, Any] = {}
        bind: Callable[..., Any] = core.clone_and_bind_net
        for net in self.thread_init_nets:
            self._cloned_init_nets.append(bind(net, str(net) + prefix, prefix, renamed)[0])
        copy, names = bind(self.net, str(self.net) + prefix, prefix, renamed, rec)
        stop: Any = self._stop_signal
        if stop is not None and str(stop) in names:
            stop = core.BlobReference(names[str(stop)], net=copy)
        self._blob_maps.append(names)
        return Output([copy], copy.output_record(), stop)

    def blob_maps(self) -> list[dict[str, str]]:
        """Return how the blobs of each copy are called."""
        self._frozen = True
        return self._blob_maps
