"""Clocks: TimerBegin, TimerEnd, TimerGet, TimerGetAndEnd, WallClockTime. All times are in nanoseconds."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import NetError
from tazza.operator import (
    BlobSpec,
    Effects,
    Operator,
    OpSchema,
    Role,
    arg,
    blob,
    family,
    forbidden,
    host_kernel,
    not_written,
    schema,
)
from tazza.ops.control import statistic
from tazza.tensor import Blob, DataType
from tazza.tensor.blob import blob_type

TIMER = "caffe2::TimerInstance*"
NO_GRADIENT = not_written("Caffe2 has none either")


def clock_ns() -> int:
    """Return the nanoseconds since some moment."""
    return time.perf_counter_ns()


@blob_type(TIMER)
class Timer:
    """Runs from `begin` to `end`, again and again; the statistics `<name>/time_ns/sum` and `count` tell of all runs."""

    __slots__ = ("_begun_ns", "_entries", "name")

    def __init__(self, name: str) -> None:
        """Stand still."""
        self.name = name
        self._begun_ns: int | None = None
        self._entries = (f"{name}/time_ns/sum", f"{name}/time_ns/count")
        statistic.OF_PROCESS.add(dict.fromkeys(self._entries, 0))

    def begin(self) -> None:
        """Run.

        Raises:
            NetError: it runs already.
        """
        if self._begun_ns is not None:
            raise NetError(f"the timer {self.name!r} runs already", hint="end it before it begins again")
        self._begun_ns = clock_ns()

    def read(self) -> int:
        """Return for how long it has run.

        Raises:
            NetError: it stands still.
        """
        if self._begun_ns is None:
            raise NetError(f"the timer {self.name!r} does not run", hint="begin it by TimerBegin")
        return clock_ns() - self._begun_ns

    def end(self) -> int:
        """Return for how long it has run, add that to the statistics, and stand still.

        Raises:
            NetError: it stands still.
        """
        elapsed_ns = self.read()
        self._begun_ns = None
        statistic.OF_PROCESS.add(dict(zip(self._entries, (elapsed_ns, 1), strict=True)))
        return elapsed_ns


TIMER_BEGIN = schema(
    "TimerBegin",
    "timer = that of this operator, which begins to run.",
    outputs=[blob("timer", type_name=TIMER)],
    args=[arg("counter_name", str, "", doc="what its statistics are called; empty for the name of the output")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("TimerBegin", counter_name="coffee").name
    'coffee'
    """,
)


@host_kernel(TIMER_BEGIN)
class TimerBegin:
    """Has the timer."""

    def __init__(self, operator: Operator) -> None:
        name: str = operator.op.counter_name
        self._timer = Timer(name if name else operator.definition.output[0])

    def run(self, timer: Blob) -> None:
        self._timer.begin()
        timer.set(self._timer)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a timer that runs."""

    doc: str
    output: BlobSpec | None
    ask: Callable[[Timer], int]


@family(
    {
        "TimerEnd": Question("The timer stands still; its statistics grow by the time that it ran.", None, Timer.end),
        "TimerGet": Question(
            "nanos = the time that the timer has run.", blob("nanos", DataType.INT64, "", host=True), Timer.read
        ),
        "TimerGetAndEnd": Question(
            "nanos = the time that the timer has run; then as TimerEnd.",
            blob("nanos", DataType.INT64, "1", host=True),
            Timer.end,
        ),
    }
)
def questions(type: str, row: Question) -> OpSchema:
    """An operator that asks a timer."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("timer", type_name=TIMER, role=Role.STATE)],
        outputs=[] if row.output is None else [row.output],
        effects=Effects.STATE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
        >>> _ = run("{type}", run("TimerBegin"))
        """,
    )
    if row.output is None:

        @host_kernel(made)
        def end(timer: Blob) -> None:
            row.ask(timer.get(Timer))

        return made
    shape = (1,) * len(str(row.output.dims))

    @host_kernel(made)
    def answer(timer: Blob, nanos: Blob) -> None:
        nanos.tensor().assign(np.full(shape, row.ask(timer.get(Timer)), np.int64))

    return made


WALL_CLOCK_TIME = schema(
    "WallClockTime",
    "time = the nanoseconds since 1970.",
    outputs=[blob("time", DataType.INT64, "", host=True)],
    effects=Effects.STATE,
    no_gradient=forbidden("the time depends on nothing"),
    source="Caffe2",
    example="""
    >>> int(run("WallClockTime")) > 10**18
    True
    """,
)


@host_kernel(WALL_CLOCK_TIME)
def wall_clock_time(time: Blob) -> None:
    time.tensor().assign(np.array(statistic.wall_ns()))
