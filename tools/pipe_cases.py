"""What `tools/record_steps.py` builds with `pipeline`, `dataset`, `record_queue` and `text_file_reader`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# ruff: noqa: D103 -- what a case builds is its name and its few lines


def pipe_cases() -> dict[str, Callable[[Any], Any]]:
    """Return all, by name."""
    return {f"pipe {one.__name__}": one for one in CASES}


def form(m: Any) -> Any:
    return m.schema.Struct(("a", m.np.float32), ("b", m.schema.List(m.np.int64)))


def source(m: Any, init: Any = None) -> Any:
    """Return a data set in memory."""
    made = m.dataset.Dataset(form(m), name="data")
    made.init_empty(m.core.Net("fill") if init is None else init)
    return made


def doubled(m: Any) -> Any:
    """Return a net with records for its inputs and outputs, and its signal of the end."""
    net = m.core.Net("double")
    record = m.schema.NewRecord(net, m.schema.Struct(("x", m.np.float32)))
    net.set_input_record(record)
    stop = net.ConstantFill([], "stop", shape=[], value=False, dtype=m.core.DataType.BOOL)
    net.set_output_record(m.schema.Struct(("y", net.Add([record.x(), record.x()]))))
    return net, stop


def into_a_queue(m: Any) -> Any:
    with m.TaskGroup() as group:
        m.pipeline.pipe(source(m), num_runtime_threads=2)
    return tasks(m, group)


def by_nets_of_threads(m: Any) -> Any:
    with m.TaskGroup() as group:
        m.pipeline.pipe(source(m), num_threads=2, capacity=7, name="mine")
    return tasks(m, group)


def into_a_data_set(m: Any) -> Any:
    init = m.core.Net("init")
    with m.TaskGroup() as group:
        m.pipeline.pipe(source(m, init).reader(init, batch_size=3, enforce_batch_size=True), source(m, init))
    return [init, *tasks(m, group)]


def through_a_function(m: Any) -> Any:
    def picked(record: Any) -> Any:
        return m.schema.Struct(("c", m.ops.Copy(record.a())))

    def ended(record: Any) -> None:
        del record
        m.ops.stop_if(m.ops.Const(False))

    with m.TaskGroup() as group:
        queue = m.pipeline.pipe(source(m), processor=picked)
        m.pipeline.pipe(queue, processor=ended, num_threads=1)
    return tasks(m, group)


def through_nets(m: Any) -> Any:
    def net(record: Any) -> Any:
        made = m.core.Net("copy")
        return [made], m.schema.Struct(("c", made.Copy(record.a()))), made.Const(True, blob_out="end")

    with m.TaskGroup() as group:
        m.pipeline.pipe(source(m), processor=net, num_runtime_threads=3)
    return tasks(m, group)


def through_a_net(m: Any) -> Any:
    net, stop = doubled(m)
    x = m.dataset.Dataset(m.schema.Struct(("x", m.np.float32)), name="xs")
    x.init_empty(m.core.Net("fill"))
    before = m.core.Net("before")
    before.ConstantFill([], "one", shape=[1])
    processor = m.pipeline.NetProcessor(net, stop, thread_init_nets=[before], name="twice")
    with m.TaskGroup() as group:
        m.pipeline.pipe(x, processor=processor, num_threads=2)
    return [*tasks(m, group), str([sorted(one.items()) for one in processor.blob_maps()])]


def without_threads(m: Any) -> Any:
    net, _ = doubled(m)
    x = m.dataset.Dataset(m.schema.Struct(("x", m.np.float32)), name="xs")
    x.init_empty(m.core.Net("fill"))
    reader = m.pipeline.pipe(x.reader(m.core.Net("cursor")), processor=net, num_threads=0)
    with m.net_builder.NetBuilder(name="outer"):
        nets, stop, record = reader.read_record_ex(m.core.Net("i"), m.core.Net("e"))
    return [*nets, str(stop), str(record)]


def with_outputs(m: Any) -> Any:
    with m.TaskGroup() as group:
        blob = m.blob("total")
        _, one = m.pipeline.pipe_and_output(source(m), final_outputs=blob)
        _, both = m.pipeline.pipe_and_output(source(m), final_outputs=[blob, blob], num_threads=2)
        _, none = m.pipeline.pipe_and_output(source(m))
    return [*tasks(m, group), str(one.names), len(both), str(none)]


def refused(m: Any) -> Any:
    found: list[str] = []
    for act in (
        lambda: m.pipeline.pipe(3),
        lambda: m.pipeline.pipe(source(m), num_threads=2, num_runtime_threads=2),
        lambda: m.pipeline.pipe(source(m), 3),
        lambda: m.pipeline.pipe(source(m), source(m), capacity=3),
        lambda: m.pipeline.pipe_and_output(source(m), num_threads=0),
        lambda: m.dataset.Dataset("a"),
        lambda: m.dataset.Dataset(["a"]).reader(),
        lambda: m.record_queue.RecordQueue("a"),
    ):
        try:
            with m.TaskGroup():
                found.append(str(act()))
        except (AssertionError, ValueError) as error:
            found.append(type(error).__name__)
        m.reset()
    return found


def reads(m: Any) -> Any:
    init, net, end = (m.core.Net(name) for name in ("init", "read", "end"))
    data = source(m, init)
    reader = data.reader(init, cursor_name="mine", batch_size=4)
    random = data.random_reader(init, batch_size=2, loop_over=True)
    random.computeoffset(init)
    random.sort_and_shuffle(init, "a", shuffle_size=3, batch_size=2)
    stop, record = reader.read_record(net)
    other, _ = random.read(net)
    reader.reset(net)
    writer = data.writer(init)
    writer.write(net, record.field_blobs())
    writer.commit(end)
    data.trim(end, 5)
    told = [str(stop), str(other), str(data.get_blobs()), str(data.field_types), str(data.fields)]
    return [init, net, end, *told]


def record_queue(m: Any) -> Any:
    init = m.core.Net("init")
    queue = m.record_queue.RecordQueue(form(m), name="records", capacity=3, num_threads=2)
    reader, fill, close, kind = queue.build(source(m, init).reader(init))
    net = m.core.Net("out")
    stop, record = reader.read_record(net)
    return [init, fill, close, net, str(kind.field_names()), str(stop), str(record.field_blobs())]


def record_queue_with_process(m: Any) -> Any:
    init = m.core.Net("init")

    def process(net: Any, record: Any) -> Any:
        net.Copy(record.a(), record.a())
        return record

    queue = m.record_queue.RecordQueue(["a", "b:lengths", "b:values"], capacity=1)
    _, fill, _, _ = queue.build(source(m, init).reader(init), process)
    return [init, fill]


def text_file(m: Any) -> Any:
    init, net = m.core.Net("init"), m.core.Net("read")
    columns = m.schema.Struct(("name", str), ("score", m.np.float32))
    reader = m.text_file_reader.TextFileReader(init, "scores.txt", columns, num_passes=2, batch_size=3)
    single = m.text_file_reader.TextFileReader(init, "names.txt", m.schema.Struct(("name", str)))
    stop, record = reader.read_record(net)
    other, _ = single.read_record(net)
    return [init, net, str(stop), str(other), str(record.field_blobs())]


def tasks(m: Any, group: Any) -> list[Any]:
    """Return the tasks of a group, by node."""
    return [
        group.to_task(),
        *(repr(one) for one in group.tasks()),
    ]


CASES = [
    *(into_a_queue, by_nets_of_threads, into_a_data_set, through_a_function, through_nets, through_a_net),
    *(without_threads, with_outputs, refused, reads, record_queue, record_queue_with_process, text_file),
]
