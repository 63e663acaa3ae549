"""Counters as blobs: CreateCounter, ResetCounter, CountUp, CountDown, CheckCounterDone, RetrieveCount.

A counter is shared by all nets that see its blob, on whatever threads they run: each step is one that nobody comes
between. What is counted lies on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import FormatError, NumericError
from tazza.operator import (
    BlobSpec,
    Effects,
    NoGradient,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    family,
    forbidden,
    host_kernel,
    not_written,
    schema,
)
from tazza.proto import BlobProto, TensorProto
from tazza.runtime.holding import Held
from tazza.tensor import Blob, DataType
from tazza.tensor.blob import blob_type
from tazza.tensor.serializer import SERIALIZERS, Collector, Serializer

COUNTER = "std::unique_ptr<Counter<int64_t>>"
FIRST, LAST = -(2**63), 2**63 - 1
NO_GRADIENT = forbidden("a counter is no tensor")


@blob_type("std::unique_ptr<caffe2::Counter<long int> >", serialized=COUNTER)
class Counter(Held):
    """A whole number of 64 bits that threads count together.

    >>> counter = Counter(2)
    >>> counter.add(1), counter.add(-1), counter.count
    (2, 3, 2)
    """

    __slots__ = ("count",)

    def __init__(self, count: int = 0) -> None:
        """Begin with `count`."""
        super().__init__()
        self.count = count

    def add(self, step: int) -> int:
        """Add a number and return what was there before.

        Raises:
            NumericError: it would leave the 64 bits.
        """
        with self:
            before = self.count
            if not FIRST <= before + step <= LAST:
                raise NumericError(f"the counter stands at {before}, it must stay from {FIRST} to {LAST}")
            self.count = before + step
        return before

    def reset(self, count: int) -> int:
        """Begin anew with `count` and return what was there before."""
        with self:
            before, self.count = self.count, count
        return before


class CounterSerializer(Serializer[Counter]):
    """Stores the number as a tensor of one element."""

    def records(self, value: Counter, name: str, chunk_size: int) -> Iterator[tuple[str, BlobProto]]:
        """Yield the one record."""
        del chunk_size
        tensor = TensorProto(dims=[1], data_type=TensorProto.INT64, int64_data=[value.count], name=name)
        yield name, BlobProto(name=name, type=COUNTER, tensor=tensor)

    def collector(self, name: str) -> Collector:
        """Return what takes the one record."""
        return _CounterCollector(name)


class _CounterCollector(Collector):
    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: list[int] = []

    def add(self, record: BlobProto) -> None:
        found = record.tensor.int64_data
        if len(found) != 1 or self._counts:
            raise FormatError(f"counter {self._name!r} is stored as {len(self._counts) + len(found)} numbers, it is 1")
        self._counts.append(found[0])

    @property
    def complete(self) -> bool:
        return bool(self._counts)

    def write(self, blob: Blob) -> None:
        if not self._counts:
            raise FormatError(f"counter {self._name!r} has no record")
        blob.set(Counter(self._counts[0]))


SERIALIZERS.register(COUNTER, CounterSerializer(), help="a counter: its number")


def show(target: Blob, value: int | bool) -> None:
    """Put a number, or whether something is so, into a blob: a tensor of rank 0."""
    target.tensor().assign(np.array(value, np.bool_ if isinstance(value, bool) else np.int64))


INIT_COUNT = arg("init_count", int, 0, minimum=0, maximum=LAST, doc="what it begins with")
ON_COUNTER = blob("counter", type_name=COUNTER, role=Role.STATE)

CREATE_COUNTER = schema(
    "CreateCounter",
    """counter = a new counter at `init_count`.

    A blob that has something in it already is given the new counter instead.""",
    outputs=[ON_COUNTER],
    args=[INIT_COUNT],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("CreateCounter", init_count=3).count
    3
    """,
)


@host_kernel(CREATE_COUNTER)
def create_counter(op: OpView, counter: Blob) -> None:
    counter.set(Counter(op.init_count))


RESET_COUNTER = schema(
    "ResetCounter",
    "counter = `init_count`, and previous_value = what it was.",
    inputs=[ON_COUNTER],
    outputs=[blob("previous_value", DataType.INT64, "", optional=True, host=True)],
    args=[INIT_COUNT],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> counter = run("CreateCounter", init_count=3)
    >>> run("ResetCounter", counter, outputs=1, init_count=7), counter.count
    (array(3), 7)
    """,
)


@host_kernel(RESET_COUNTER)
def reset_counter(op: OpView, counter: Blob, previous_value: Blob | None) -> None:
    before = counter.get(Counter).reset(op.init_count)
    if previous_value is not None:
        show(previous_value, before)


COUNT, DONE = blob("Y", DataType.INT64, "", host=True), blob("Y", DataType.BOOL, "", host=True)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a counter, and what the example asks one that stands at 1."""

    doc: str
    output: BlobSpec
    ask: Callable[[Counter], int | bool]
    example: str
    no_gradient: NoGradient = NO_GRADIENT


@family(
    {
        "CountUp": Question(
            "Y = counter, then counter + 1.",
            COUNT,
            lambda counter: counter.add(1),
            """>>> run("CountUp", counter), counter.count
        (array(1), 2)""",
        ),
        "CountDown": Question(
            "Y = whether counter <= 0, then counter - 1, below 0 too.",
            DONE,
            lambda counter: counter.add(-1) <= 0,
            """>>> run("CountDown", counter), run("CountDown", counter), counter.count
        (array(False), array(True), -1)""",
        ),
        "CheckCounterDone": Question(
            "Y = whether counter <= 0.",
            DONE,
            lambda counter: counter.count <= 0,
            """>>> run("CheckCounterDone", counter)
        array(False)""",
            not_written("Caffe2 has none either"),
        ),
        "RetrieveCount": Question(
            "Y = counter.",
            COUNT,
            lambda counter: counter.count,
            """>>> run("RetrieveCount", counter)
        array(1)""",
        ),
    }
)
def questions(type: str, row: Question) -> OpSchema:
    """An operator that asks a counter."""
    made = schema(
        type,
        row.doc,
        inputs=[ON_COUNTER],
        outputs=[row.output],
        effects=Effects.STATE,
        no_gradient=row.no_gradient,
        source="Caffe2",
        example=f"""
        >>> counter = run("CreateCounter", init_count=1)
        {row.example}
        """,
    )

    @host_kernel(made)
    def answer(counter: Blob, Y: Blob) -> None:
        show(Y, row.ask(counter.get(Counter)))

    return made
