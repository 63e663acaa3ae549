"""Recording: what is measured while a net runs, and the profile that it makes.

    with Recorder(net) as recorder:
        net.run()
    print(recorder.profile())

A recorder attaches to a net and to each of its operators. An operator that is observed runs by itself, where others run
many in one call without the GIL, and noting a run takes a few µs; `profile_net` measures what that adds. A net whose
steps are no operators (`plan`) tells of them itself, see `observers/steps.py`; so do its clones, such as the nets by
which other threads run a predictor.

On the host an operator is measured by the clock, in the thread that runs it. Where a device has streams, events around
it are: their times count from one that ends when recording begins. A device whose events do not tell times is measured
by when their ends are seen, which for events that nobody waits for is late.

State: records are appended by whatever thread runs an operator, one call of the interpreter each; what an operator's
own observer keeps is used by the thread that runs it. `run` changes between two runs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Self, TypeAlias

from tazza.data_class import dataclass
from tazza.device import Event, current_context
from tazza.device.event import recorded
from tazza.errors import ArgumentError, TazzaError
from tazza.graph.dependency import accesses_of, dependencies
from tazza.nets import NetBase
from tazza.observers.profile import Occurrence, Profile, ProfiledStep
from tazza.observers.steps import StepLog
from tazza.observers.timeline import SpanKind
from tazza.operator import Cost, Observer, Operator
from tazza.operator.estimate import operator_cost
from tazza.operator.watch import Watch, watched
from tazza.runtime.waiting import Wait, take_waits
from tazza.tensor import Place

RECORDS_MAX = 1_000_000
"""Runs of operators that a recorder keeps unless told otherwise; some 300 MB."""


@dataclass(frozen=True, slots=True)
class _Record:
    """One run of an operator. `marks` are events around it on its stream, where it has one."""

    run: int
    position: int
    lane: str
    start_s: float
    end_s: float
    waits: tuple[Wait, ...]
    kind: SpanKind
    cost: Cost | None
    marks: tuple[Event, Event] | None


Fields: TypeAlias = (
    "tuple[int, int, str, float, float, tuple[Wait, ...], SpanKind, Cost | None, tuple[Event, Event] | None]"
)
"""Those of a `_Record`."""


class _OperatorObserver(Observer[Operator]):
    """Notes the runs of one operator."""

    def __init__(self, recorder: Recorder, operator: Operator, position: int) -> None:
        self._recorder = recorder
        self._position = position
        self._place = operator.place
        self._blobs = (*operator.inputs, *operator.outputs)
        self._watch: Watch | None = None
        self._records = recorder.records
        self._most = recorder.records_max
        self._cost: Cost | None = None
        self._kind = SpanKind.COPY if operator.schema.copying else SpanKind.COMPUTE
        self._mark: Event | None = None
        self._started: float | None = None

    def start(self) -> None:
        """Note the time, and forget what the thread waited for before."""
        take_waits()
        if not self._place.is_host:
            self._mark = self._marked()
        self._started = time.perf_counter()

    def stop(self) -> None:
        """Note the run; one that started before the observer was attached does not count."""
        ended = time.perf_counter()
        started, self._started = self._started, None
        if started is None:
            return
        if self._watch is None or self._watch.moved():
            self._look()
        if len(self._records) >= self._most:
            self._recorder.dropped += 1
            return
        lane, marks = threading.current_thread().name, None
        if self._mark is not None:
            end = self._marked()
            if end is not None:
                lane, marks = self._stream_name(), (self._mark, end)
            self._mark = None
        run = self._recorder.run
        self._records.append(  # a tuple, which is made in a fifth of the time of a `_Record`
            (run, self._position, lane, started, ended, take_waits(), self._kind, self._cost, marks)
        )

    def _marked(self) -> Event | None:
        """Return an event behind what was queued so far; None where there is no stream."""
        context = current_context(self._place)
        return None if context.stream is None else recorded(context)

    def _stream_name(self) -> str:
        stream = current_context(self._place).stream
        assert stream is not None, "an event was recorded on it"
        return stream.name

    def _look(self) -> None:
        """See what the run cost; again only where a shape has changed."""
        self._watch = Watch(map(watched, self._blobs))
        try:
            self._cost = operator_cost(self.subject)
        except TazzaError:  # a run that failed may leave shapes that do not fit each other
            self._cost = None


class _NetObserver(Observer[NetBase]):
    """Notes the runs of the net."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._started: float | None = None

    def start(self) -> None:
        self._started = time.perf_counter()

    def stop(self) -> None:
        if self._started is not None:
            self._recorder.end_run((self._started, time.perf_counter()))
        self._started = None


class Recorder:
    """Measures every run of a net from now on until `stop`; a context manager that stops at its end.

    >>> from tazza.operator import operator_def
    >>> from tazza.proto import NetDef
    >>> from tazza.workspace import Workspace
    >>> fill = operator_def("ConstantFill", [], ["x"], shape=[2])
    >>> net = Workspace().create_net(NetDef(name="example", op=[fill]))
    >>> with Recorder(net) as recorder:
    ...     net.run()
    >>> [(row.name, row.count) for row in recorder.profile().by_operator()]
    [('ConstantFill x', 1)]
    """

    def __init__(self, net: NetBase, *, records_max: int = RECORDS_MAX) -> None:
        """Attach to the net and its operators."""
        self.net = net
        self.run = 0
        """How many runs of operators ended; what is under way belongs to the next one."""
        self.dropped = 0
        """Runs of operators that there was no room for."""
        self.steps = None if net.runs_operators else StepLog(records_max)
        """What a net told that has steps of its own."""
        self.records_max = records_max
        self.records: list[Fields] = []
        """What observers of operators append to."""
        self._runs: list[Wait] = []
        self._operators = tuple(net.operators)
        self._origins = {place: _origin(place) for place in {one.place for one in self._operators} if not place.is_host}
        self._own: list[tuple[Operator, _OperatorObserver]] = []
        self._whole = _NetObserver(self)
        for position, operator in enumerate(self._operators):
            self._own.append((operator, _OperatorObserver(self, operator, position)))
        self.start()

    def start(self) -> None:
        """Attach; does nothing where it is attached."""
        if self.steps is not None:
            self.net.watch(self.steps)
            return
        for operator, observer in self._own:
            operator.attach(observer)  # pyright: ignore[reportArgumentType] -- an operator's observers see that operator
        self.net.attach(self._whole)  # pyright: ignore[reportArgumentType] -- as above

    def stop(self) -> None:
        """Detach; what was measured stays."""
        if self.steps is not None:
            self.net.unwatch(self.steps)
            return
        for operator, observer in self._own:
            operator.detach(observer)  # pyright: ignore[reportArgumentType] -- as in `start`
        self.net.detach(self._whole)  # pyright: ignore[reportArgumentType] -- as in `start`

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def reset(self) -> None:
        """Forget all runs so far, such as the first ones, which prepare kernels."""
        self.records.clear()
        self._runs.clear()
        self.run = self.dropped = 0
        if self.steps is not None:
            self.steps.reset()

    def end_run(self, took: Wait) -> None:
        """Keep start and end of a run; called by the observer of the net."""
        self._runs.append(took)
        self.run += 1

    def profile(self, *, plain_s: Sequence[float] = ()) -> Profile:
        """Return what was measured so far; waits for devices. `plain_s`: seconds of runs while nobody looked."""
        kind = self.net.definition.type
        name, kind = self.net.name, kind if kind else "simple"
        if self.steps is not None:
            log = self.steps
            return Profile(name, kind, log.spans(), log.occurrences(), tuple(plain_s), log.dropped)
        return Profile(name, kind, tuple(self._runs), self._occurrences(), tuple(plain_s), self.dropped)

    def _occurrences(self) -> tuple[Occurrence, ...]:
        steps = [_step(position, operator) for position, operator in enumerate(self._operators)]
        parents = dependencies(accesses_of(self._operators)).parents
        found: list[Occurrence] = []
        for run, records in _by_run(self.records):
            started = self._runs[run][0] if run < len(self._runs) else None
            spans = {record.position: self._span(record) for record in records}
            for record in records:
                ends = [spans[parent][1] for parent in parents[record.position] if parent in spans]
                complete = len(ends) == len(parents[record.position])
                ready_s = max(ends, default=started) if complete else None
                start_s, end_s = spans[record.position]
                found.append(
                    Occurrence(
                        run,
                        steps[record.position],
                        record.lane,
                        start_s,
                        end_s,
                        ready_s,
                        record.waits if record.marks is None else (),
                        record.kind,
                        record.cost,
                    )
                )
        return tuple(found)

    def _span(self, record: _Record) -> Wait:
        """Return start and end: by the device's clock where it has one, told from the host's moment of the origin."""
        if record.marks is None:
            return record.start_s, record.end_s
        for event in record.marks:
            with contextlib.suppress(Exception):  # what failed is the run's to tell
                event.wait()
        origin = self._origins[self._operators[record.position].place]
        start, end = (origin.finished_s + event.elapsed_s(origin) for event in record.marks)
        return start, max(start, end)


def _origin(place: Place) -> Event:
    """Return an event of a device that has ended just now."""
    event = recorded(current_context(place))
    event.wait()
    return event


def _step(position: int, operator: Operator) -> ProfiledStep:
    engine = next((choice.engine for choice in operator.choices if choice.reason is None), "")
    return ProfiledStep(position, operator.definition.type, ", ".join(operator.definition.output), engine)


def _by_run(records: Sequence[Fields]) -> list[tuple[int, list[_Record]]]:
    runs: dict[int, list[_Record]] = {}
    for fields in tuple(records):
        record = _Record(*fields)
        runs.setdefault(record.run, []).append(record)
    return sorted(runs.items())


# -- whole profiles ----------------------------------------------------------------------------------------------------


def profile_net(net: NetBase, *, runs: int = 10, warm_up: int = 2) -> Profile:
    """Run a net and return where its time went.

    It runs `warm_up` times so that everything is prepared, `runs` times while nobody looks, to know what profiling
    costs, and `runs` times observed.

    Raises:
        ArgumentError: `runs` is below 1, or `warm_up` below 0.
        TazzaError: what the net raises.
    """
    if runs < 1 or warm_up < 0:
        raise ArgumentError(f"profile of {runs} runs after {warm_up} others", hint="runs >= 1, warm_up >= 0")
    for _ in range(warm_up):
        net.run()
    plain_s = [_timed_run(net) for _ in range(runs)]
    with Recorder(net) as recorder:
        net.run()  # the first one that is observed: what ran as one is taken apart
        recorder.reset()
        for _ in range(runs):
            net.run()
        return recorder.profile(plain_s=plain_s)


def _timed_run(net: NetBase) -> float:
    start = time.perf_counter()
    net.run()
    return time.perf_counter() - start
