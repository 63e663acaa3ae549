"""A pipeline of the old modules: two readers, queues, batches that are cut anew, and three stages on threads.

    text file --> even --> queue ---> rebatching --> name --> queue --> tally
    LMDB -------> even --> queue -'

`even` gives records of both sources one form, `name` finds the number of a name in an index and doubles the value,
`tally` counts. The first two are functions, the last a net.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from caffe2.python import core, dataio, schema, workspace
from caffe2.python.net_builder import ops
from caffe2.python.pipeline import NetProcessor, ProcessingReader, pipe
from caffe2.python.queue_util import Queue
from caffe2.python.session import LocalSession
from caffe2.python.task import TaskGroup
from caffe2.python.text_file_reader import TextFileReader
from tests.records.source import NAMES, STORE, TEXT, VALUES, mixed

FORM = schema.Struct(("id", np.int64), ("value", np.float32), ("name", str))
ROWS = schema.Struct(("id", np.float32), ("value", np.float32), ("name", str))
CAPACITY = 8
"""Batches that a queue holds."""
SOURCES = 2


@dataclass
class Tally:
    """What came out: how many records, their checksum, and which; `torn` have columns of several records."""

    records: int
    count: int = 0
    checksum: int = 0
    twice: int = 0
    torn: int = 0
    largest: int = 0
    seen: np.ndarray[tuple[int], np.dtype[np.bool_]] = field(init=False)
    places: dict[int, int] = field(default_factory=dict[int, int])
    """By the number of a name: which one it is."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Nothing came yet."""
        self.seen = np.zeros(self.records, np.bool_)

    def __call__(self, inputs: Any, outputs: Any) -> None:
        """Count a batch: a Python operator."""
        del outputs
        numbers, values, places = (one.data for one in inputs)
        with self.lock:
            self.count += len(numbers)
            self.largest = max(self.largest, len(numbers))
            self.checksum = (self.checksum + mixed(numbers)) % 2**64
            self.twice += len(numbers) - len(np.unique(numbers)) + int(self.seen[numbers].sum())
            self.seen[numbers] = True
            pairs = np.unique(np.stack([places, numbers % len(NAMES)]), axis=1)
            wrong = sum(self.places.setdefault(place, which) != which for place, which in pairs.T.tolist())
            self.torn += wrong + int((values != numbers % VALUES).sum())

    def check(self) -> None:
        """Assert that each record came once, and whole."""
        assert (self.count, self.twice, self.torn) == (self.records, 0, 0), self
        assert self.checksum == mixed(np.arange(self.records)), "other records than went in"
        assert len(set(self.places.values())) == len(self.places) == min(len(NAMES), self.records)


class StoreReader(dataio.Reader):
    """Reads records of a database, which begins anew behind its last one."""

    def __init__(self, path: Path, batch_size: int) -> None:
        """Read a database."""
        super().__init__(FORM)
        self._path, self._batch_size = path, batch_size
        self._reader: Any = None

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Open it."""
        self._reader = init_net.CreateDB([], db=str(self._path), db_type="lmdb")

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """Read a batch; who reads says when it ends."""
        blobs = read_net.TensorProtosDBInput([self._reader], 3, batch_size=self._batch_size)
        return read_net.ConstantFill([], 1, shape=[], value=False, dtype=core.DataType.BOOL), list(blobs)


class Rebatching(dataio.Pipe):
    """A rebatching queue as a pipe for several writers, the last of which closes it, and one reader."""

    def __init__(self, records: int, batch_size: int, writers: int) -> None:
        """Hold some batches of so many records; what is left over at the end comes as a smaller one."""
        super().__init__(FORM, TaskGroup.LOCAL_SETUP)
        self.batch_size, self.records, self.writers = batch_size, records, writers
        self.queue, self.left = core.BlobReference("rebatching"), core.BlobReference("writers_left")

    def setup(self, global_init_net: Any) -> None:
        """Make the queue."""
        global_init_net.CreateRebatchingQueue([], [self.queue], capacity=CAPACITY * self.batch_size, num_blobs=3)
        global_init_net.CreateCounter([], [self.left], init_count=self.writers - 1)

    def told(self, init_net: Any) -> None:
        """Say that this net uses the queue, so that it is made before."""
        init_net.add_attribute(TaskGroup.LOCAL_SETUP, self)

    def reader(self) -> dataio.Reader:
        """Return what takes batches out, as many as there will be."""
        return dataio.ReaderWithLimit(_RebatchingReader(self), -(-self.records // self.batch_size))

    def writer(self) -> dataio.Writer:
        """Return what puts batches in."""
        return _RebatchingWriter(self)


class _RebatchingReader(dataio.Reader):
    def __init__(self, own: Rebatching) -> None:
        super().__init__(FORM)
        self._own = own

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        self._own.told(init_net)

    def read(self, read_net: Any) -> tuple[Any, Any]:
        blobs = read_net.DequeueRebatchingQueue([self._own.queue], 3, num_elements=self._own.batch_size)
        return read_net.ConstantFill([], 1, shape=[], value=False, dtype=core.DataType.BOOL), list(blobs)


class _RebatchingWriter(dataio.Writer):
    def __init__(self, own: Rebatching) -> None:
        self._own = own

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        self._own.told(init_net)
        close = core.Net("close")
        close.CloseRebatchingQueue([self._own.queue], 0)
        finish_net.If([finish_net.CountDown([self._own.left], 1), self._own.queue], 0, then_net=close.Proto())

    def write(self, writer_net: Any, fields: Any) -> None:
        writer_net.EnqueueRebatchingQueue([self._own.queue, *fields], 0, enqueue_batch=1)


@dataclass(frozen=True)
class Sizes:
    """How many records there are, in batches of what size they are read and cut anew, on how many threads."""

    records: int
    read: int = 1000
    again: int = 1500
    threads: int = 2

    def __post_init__(self) -> None:
        """Check that a database is read to its end: its reader begins anew behind it."""
        assert self.stored % self.read == 0, f"{self.stored} records of the database, in batches of {self.read}"

    @property
    def stored(self) -> int:
        """How many records are in the database."""
        return self.records - self.records // 2


def even(record: Any) -> Any:
    """Give a record the form that both sources have."""
    out = schema.NewRecord(ops, FORM)
    ops.Cast([record.id()], [out.id()], to=core.DataType.INT64)
    ops.Copy([record.value()], [out.value()])
    ops.Copy([record.name()], [out.name()])
    return out


def naming(index: Any) -> Any:
    """Return a net that finds names in an index and doubles values."""
    net = core.Net("naming")
    record = schema.NewRecord(net, FORM)
    net.set_input_record(record)
    place = net.IndexGet([index, record.name()], 1)
    double = net.Scale([record.value()], 1, scale=2.0)
    net.set_output_record(
        schema.Struct(
            ("id", schema.Scalar(np.int64, record.id())),
            ("value", schema.Scalar(np.float32, double)),
            ("place", schema.Scalar(np.int32, place)),
        )
    )
    return net


STAGES = ("read_text", "cut_text", "read_store", "cut_store", "name", "tally")
Act = Callable[[Any, Any], None]
"""Adds to a net what is done with a record before a stage has it."""


def _before(stage: str, source: Any, acts: Mapping[str, Act]) -> Any:
    """Return what a stage reads, with what is done before it."""
    act = acts.get(stage)
    if act is None:
        return source

    def process(record: Any) -> Any:
        net = core.Net("before")
        act(net, record)
        ops.net(net)
        return record

    return ProcessingReader(source if isinstance(source, dataio.Reader) else source.reader(), process)


def build(folder: Path, sizes: Sizes, tally: Any, acts: Mapping[str, Act] = MappingProxyType({})) -> TaskGroup:
    """Return the tasks of the pipeline, over the sources in a folder; each is called as its stage."""
    prepare = core.Net("prepare")
    index = prepare.StringIndexCreate([], "names_seen", max_elements=len(NAMES) + 1)
    rows = TextFileReader(prepare, str(folder / TEXT), ROWS, batch_size=sizes.read)
    workspace.RunNetOnce(prepare)

    def counted(record: Any) -> None:
        net = core.Net("tally")
        net.Python(tally)([record.id(), record.value(), record.place()], [])
        ops.net(net)

    with TaskGroup() as group:
        store = dataio.ReaderWithLimit(StoreReader(folder / STORE, sizes.read), sizes.stored // sizes.read)
        again = Rebatching(sizes.records, sizes.again, SOURCES)
        for name, source in (("text", rows), ("store", store)):
            stage = f"read_{name}"
            whole = Queue(CAPACITY, FORM, f"{name}_queue")
            pipe(_before(stage, source, acts), whole, processor=even, name=stage)
            stage = f"cut_{name}"
            pipe(_before(stage, whole, acts), again, name=stage)
        named = pipe(
            _before("name", again, acts), processor=NetProcessor(naming(index)), name="name", capacity=CAPACITY
        )
        pipe(_before("tally", named, acts), processor=counted, name="tally", num_threads=sizes.threads)
    return group


def run(folder: Path, sizes: Sizes, tally: Tally, acts: Mapping[str, Act] = MappingProxyType({})) -> None:
    """Run the pipeline to its end, and assert that each record came once, and whole."""
    workspace.ResetWorkspace()
    try:
        group = build(folder, sizes, tally, acts)
        with LocalSession() as session:
            session.run(group)
    finally:
        workspace.ResetWorkspace()
    tally.check()
