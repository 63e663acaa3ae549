"""Profiles: where the time of a net goes, by operator, by operator type and by lane (a thread, or a device's stream).

    profile = profile_net(net, runs=10)
    print(profile)
    profile.timeline().draw("run.png"); write_trace("run.json", profile.timeline())

A profile is what `observers/recorder.py` measured, as it was; nothing in it changes. All times are seconds on the clock
`time.perf_counter`. Operations and bytes are those that the schemas count, whatever a kernel really does.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from tazza.data_class import dataclass
from tazza.observers.timeline import Span, SpanKind, Timeline
from tazza.operator import Cost
from tazza.runtime.units import digits
from tazza.runtime.waiting import Wait

IDLE_S = 20e-6
"""The shortest stretch between two operators of a lane that a timeline shows as one of waiting."""
NOTHING = Cost()
SLOW_SHARE = 0.1
"""Of the time of all operators: a row that takes more is marked."""

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class ProfiledStep:
    """What runs: an operator, or what a plan made of several. `label` tells which one, by what it writes."""

    position: int
    type: str
    outputs: str
    engine: str
    fused_from: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The type and what it writes."""
        return f"{self.type} {self.outputs}".rstrip()


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One run of one step.

    `ready_s` is when all that it depends on had ended, None where that is not known; `waits` are the stretches in which
    it waited for threads; `cost` is None where the schema could not tell.
    """

    run: int
    step: ProfiledStep
    lane: str
    start_s: float
    end_s: float
    ready_s: float | None = None
    waits: tuple[Wait, ...] = ()
    kind: SpanKind = SpanKind.COMPUTE
    cost: Cost | None = None

    @property
    def waited_s(self) -> float:
        """Seconds in which it waited for threads."""
        return sum(end_s - start_s for start_s, end_s in self.waits)

    @property
    def time_s(self) -> float:
        """Seconds from its start to its end, but for those in which it waited."""
        return self.end_s - self.start_s - self.waited_s

    @property
    def late_s(self) -> float | None:
        """Seconds between the moment when it could have started and its start."""
        return None if self.ready_s is None else max(0.0, self.start_s - self.ready_s)


@dataclass(frozen=True, slots=True)
class Summary:
    """What was measured of one operator, type or lane, over all runs. `count` are the runs of operators.

    `sd_s` is the standard deviation of the `count` times; `flops` and `nbytes` are sums; `late_s` is None where it is
    not known how long operators were ready before they started.
    """

    name: str
    count: int
    total_s: float
    mean_s: float
    sd_s: float
    min_s: float
    flops: int
    nbytes: int
    copied_bytes: int
    waited_s: float
    late_s: float | None
    lanes: tuple[str, ...]
    engine: str = ""

    @property
    def flops_per_s(self) -> float:
        """Operations in a second of its time."""
        return self.flops / self.total_s if self.total_s > 0 else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes read and written in a second of its time."""
        return self.nbytes / self.total_s if self.total_s > 0 else 0.0


def summarize(name: str, occurrences: Sequence[Occurrence], engine: str = "") -> Summary:
    """Return the summary of at least one occurrence."""
    times = [one.time_s for one in occurrences]
    costs = [(one, one.cost) for one in occurrences if one.cost is not None]
    late = [one.late_s for one in occurrences]
    moved = [(one.kind, cost.bytes_read + cost.bytes_written, cost.bytes_written) for one, cost in costs]
    return Summary(
        name,
        len(times),
        sum(times),
        statistics.fmean(times),
        statistics.pstdev(times),
        min(times),
        sum(cost.flops for _, cost in costs),
        sum(nbytes for _, nbytes, _ in moved),
        sum(written for kind, _, written in moved if kind is SpanKind.COPY),
        sum(one.waited_s for one in occurrences),
        None if None in late else sum(each for each in late if each is not None),
        tuple(sorted({one.lane for one in occurrences})),
        engine,
    )


@dataclass(frozen=True, slots=True)
class Profile:
    """What runs of a net took.

    `runs` are start and end of each; `plain_s` are the seconds of runs just before, while nobody looked, so that it is
    known what profiling costs: an operator that is observed runs by itself, others run many in one call. `dropped` are
    occurrences that there was no room for.
    """

    net: str
    type: str
    runs: tuple[Wait, ...]
    occurrences: tuple[Occurrence, ...]
    plain_s: tuple[float, ...] = ()
    dropped: int = 0

    # -- sums ----------------------------------------------------------------------------------------------------------

    @property
    def run_s(self) -> float:
        """Seconds of a run, the median; 0 without runs."""
        return statistics.median(end_s - start_s for start_s, end_s in self.runs) if self.runs else 0.0

    @property
    def total_s(self) -> float:
        """Seconds of all operators in all runs."""
        return sum(one.time_s for one in self.occurrences)

    @property
    def operators_s(self) -> float:
        """Seconds of all operators of a run, the median as `run_s` is; 0 without runs."""
        sums = dict.fromkeys(range(len(self.runs)), 0.0)
        for one in self.occurrences:
            sums[one.run] = sums.get(one.run, 0.0) + one.time_s
        return statistics.median(sums.values()) if sums else 0.0

    @property
    def parallelism(self) -> float:
        """How many operators were under way at a time while the net ran, by medians."""
        return self.operators_s / self.run_s if self.run_s > 0 else 0.0

    @property
    def overhead(self) -> float | None:
        """What profiling added to a run, as a share of it; None where that was not measured. Medians."""
        plain_s = statistics.median(self.plain_s) if self.plain_s else 0.0
        return self.run_s / plain_s - 1 if plain_s > 0 and self.runs else None

    def by_operator(self, *, lanes: bool = False) -> list[Summary]:
        """Return a summary for each operator, in the order of the net; with `lanes` for each lane that it ran on."""
        found = sorted(self.occurrences, key=lambda one: (one.step.position, one.lane if lanes else ""))
        groups = _groups(found, lambda one: (one.step, one.lane if lanes else ""))
        return [summarize(step.label, group, step.engine) for (step, _), group in groups]

    def by_type(self) -> list[Summary]:
        """Return a summary for each operator type, that of the longest time first."""
        return _longest_first(summarize(type, found) for type, found in _groups(self.occurrences, _type))

    def by_lane(self) -> list[Summary]:
        """Return a summary for each thread and stream, that of the longest time first."""
        return _longest_first(summarize(lane, found) for lane, found in _groups(self.occurrences, _lane))

    # -- showing -------------------------------------------------------------------------------------------------------

    def timeline(self, *, idle: bool = True) -> Timeline:
        """Return all runs as spans by lane; `idle` says whether waiting between the operators of a run is shown too.

        Waits for threads are shown where they were: an operator that waited is cut in two by them.
        """
        timeline = Timeline(spans_max=max(1, 4 * len(self.occurrences)))
        for one in self.occurrences:
            self._add(timeline, one)
        if idle:
            for (_, lane), found in _groups(self.occurrences, lambda one: (one.run, one.lane)):
                _add_idle(timeline, lane, found)
        return timeline

    @staticmethod
    def _add(timeline: Timeline, one: Occurrence) -> None:
        cost = NOTHING if one.cost is None else one.cost
        copied = cost.bytes_written if one.kind is SpanKind.COPY else cost.bytes_read + cost.bytes_written
        start_s, group = one.start_s, one.step.type
        for wait_s, served_s in one.waits:
            if wait_s - start_s > 0:
                name = f"{one.step.label} (before it waits)"
                timeline.add(one.lane, name, start_s, wait_s, kind=one.kind, group=group)
            timeline.add(one.lane, f"threads for {one.step.label}", wait_s, served_s, kind=SpanKind.WAIT)
            start_s = served_s
        work = Span(one.lane, one.step.label, start_s, one.end_s, one.kind, cost.flops, copied, group)
        timeline.extend([work])

    def headline(self) -> str:
        """Return the sums as text."""
        if not self.runs:
            return f"net {self.net!r} ({self.type}): not run"
        parts = [f"{len(self.runs)} runs, {_ms(self.run_s)} ms each"]
        overhead = self.overhead
        if overhead is not None:
            plain = _ms(statistics.median(self.plain_s))
            parts[0] += f" ({plain} ms while nobody looks: profiling adds {overhead:+.1%})"
        parts.append(f"operators {_ms(self.operators_s)} ms, {self.parallelism:.2f} at a time")
        parts += [f"{self.dropped} occurrences dropped"] if self.dropped else []
        return f"net {self.net!r} ({self.type}): {'; '.join(parts)}"

    def table(self, rows: Iterable[Summary], *, what: str = "operator") -> Table:
        """Return summaries as a table."""
        return summary_table(list(rows), self.total_s, what)

    def is_slow(self, row: Summary) -> bool:
        """Whether a row takes so much of the time that tables mark it."""
        return row.total_s > SLOW_SHARE * self.total_s

    def _repr_html_(self) -> str:
        """Return it for a notebook: the sums, and a table each for operators, types and lanes, slow rows in bold."""
        from tazza.runtime.html import heading

        parts = [heading(self.headline())]
        for rows, what in ((self.by_operator(), "operator"), (self.by_type(), "type"), (self.by_lane(), "lane")):
            slow = {place for place, row in enumerate(rows) if self.is_slow(row)} if what != "lane" else set[int]()
            parts.append(self.table(rows, what=what).html(marked=slow))
        return "".join(parts)

    def __str__(self) -> str:
        return "\n\n".join(
            (
                self.headline(),
                str(self.table(self.by_operator())),
                str(self.table(self.by_type(), what="type")),
                str(self.table(self.by_lane(), what="lane")),
            )
        )


@dataclass(frozen=True, slots=True)
class Table:
    """Titles and cells; the first `left` columns and the last one are text, the others numbers."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int

    def __str__(self) -> str:
        lines = (self.titles, *self.rows)
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.titles))]
        return "\n".join("  ".join(self._cells(line, widths)).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, *, marked: Collection[int] = ()) -> str:
        """Return it as HTML, rows of these places in bold."""
        from tazza.runtime.html import table

        numbers = {column for column in range(len(self.titles)) if not self.is_text(column)}
        return table(self.titles, self.rows, numbers=numbers, marked=marked)

    @property
    def width(self) -> int:
        """How many letters its lines have, with two between columns."""
        lines = (self.titles, *self.rows)
        count = len(self.titles)
        return sum(max(len(line[column]) for line in lines) for column in range(count)) + 2 * (count - 1)

    def without(self, title: str) -> Table:
        """Return it without a column; the place of the last one, which is text, stays empty."""
        if title not in self.titles:
            return self
        place = self.titles.index(title)
        end = ("",) if place == len(self.titles) - 1 else ()
        titles, *rows = ((*line[:place], *line[place + 1 :], *end) for line in (self.titles, *self.rows))
        return Table(titles, tuple(rows), self.left)

    def is_text(self, column: int) -> bool:
        """Whether a column holds text rather than numbers."""
        return column < self.left or column == len(self.titles) - 1

    def _cells(self, line: Sequence[str], widths: Sequence[int]) -> list[str]:
        return [
            text.ljust(width) if self.is_text(column) else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]


NUMBERS = ("runs", "total ms", "%", "mean ms", "sd", "min", "GFLOP/s", "GB/s", "late µs", "waits µs", "copied MB")
"""Columns of tables: `late` is the mean time from when an operator could have started, `waits` that for threads."""


def summary_table(rows: Sequence[Summary], total_s: float, what: str) -> Table:
    """Return a table with a row for each summary; columns that would be empty are left out."""
    engines = any(row.engine for row in rows)
    titles = (what, *(("engine",) if engines else ()), *NUMBERS, "lanes")
    left = 2 if engines else 1
    lines = [
        (row.name, *((row.engine,) if engines else ()), *_numbers(row, total_s), ", ".join(row.lanes)) for row in rows
    ]
    kept = [i for i in range(len(titles)) if i < left or any(line[i] for line in lines)]
    if what == "lane":
        kept = [i for i in kept if titles[i] != "lanes"] + [len(titles) - 1]
        titles, lines = (*titles[:-1], ""), [(*line[:-1], "") for line in lines]
    return Table(tuple(titles[i] for i in kept), tuple(tuple(line[i] for i in kept) for line in lines), left)


def _numbers(row: Summary, total_s: float) -> tuple[str, ...]:
    return (
        str(row.count),
        _ms(row.total_s),
        f"{row.total_s / total_s:.1%}" if total_s > 0 else "",
        _ms(row.mean_s),
        _ms(row.sd_s),
        _ms(row.min_s),
        f"{row.flops_per_s / 1e9:.2f}" if row.flops else "",
        f"{row.bytes_per_s / 1e9:.2f}" if row.nbytes else "",
        "" if row.late_s is None else f"{row.late_s / row.count * 1e6:.1f}",
        f"{row.waited_s / row.count * 1e6:.1f}" if row.waited_s else "",
        f"{row.copied_bytes / 1e6:.3f}" if row.copied_bytes else "",
    )


def _ms(seconds: float) -> str:
    return digits(seconds * 1e3)


def _type(one: Occurrence) -> str:
    return one.step.type


def _lane(one: Occurrence) -> str:
    return one.lane


def _longest_first(found: Iterable[Summary]) -> list[Summary]:
    return sorted(found, key=lambda row: -row.total_s)


def _groups(occurrences: Iterable[Occurrence], key: Callable[[Occurrence], K]) -> list[tuple[K, list[Occurrence]]]:
    groups: dict[K, list[Occurrence]] = {}
    for one in occurrences:
        groups.setdefault(key(one), []).append(one)
    return list(groups.items())


def _add_idle(timeline: Timeline, lane: str, found: list[Occurrence]) -> None:
    """Show where a lane had nothing to do, or nothing that was ready, between two operators of one run."""
    found.sort(key=lambda one: one.start_s)
    reached_s = found[0].end_s
    for before, after in pairwise(found):
        reached_s = max(reached_s, before.end_s)
        if after.start_s - reached_s >= IDLE_S:
            timeline.add(lane, "idle", reached_s, after.start_s, kind=SpanKind.WAIT)
