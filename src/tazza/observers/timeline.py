"""Timelines: what ran when, on which stream or thread.

    timeline = Timeline()
    with timeline.span("worker 1", "Conv conv1", flops=10**6):
        ...
    print(timeline.text()); timeline.draw("overlap.png")

A timeline knows nothing of nets, streams or schedulers: whoever measures adds spans, from any thread, on the clock
`time.perf_counter`. It is shown as text, as a picture (`draw`, needs matplotlib), or as a trace (`observers/trace.py`).

State: spans and samples are only ever appended, by one call of the interpreter each, so that adding takes no lock.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from tazza.errors import ArgumentError

SPANS_MAX = 1_000_000
"""Spans that a timeline keeps unless told otherwise; some 200 MB."""
LABEL_MAX = 24
"""Characters of a lane's name in the text form."""


class SpanKind(StrEnum):
    """What a lane does in a span."""

    COMPUTE = "compute"
    COPY = "copy"
    WAIT = "wait"


MARKS = {SpanKind.COMPUTE: "█", SpanKind.COPY: "▒", SpanKind.WAIT: "·"}
"""In the text form; where several kinds meet in one column, the first of them in this order is shown."""


class Span(NamedTuple):
    """One stretch of time of one lane; what is of one group, such as an operator type, has one colour in pictures."""

    lane: str
    name: str
    start_s: float
    end_s: float
    kind: SpanKind = SpanKind.COMPUTE
    flops: int = 0
    nbytes: int = 0
    group: str = ""

    @property
    def duration_s(self) -> float:
        """Its length in seconds."""
        return self.end_s - self.start_s


class Sample(NamedTuple):
    """The value that a counter has from a moment on."""

    counter: str
    at_s: float
    value: float


class Timeline:
    """Spans of lanes and samples of counters; thread-safe.

    >>> timeline = Timeline()
    >>> timeline.add("cpu 1", "Conv", 0.0, 0.75, flops=10)
    >>> timeline.add("cpu 2", "x", 0.5, 1.0, kind="copy", nbytes=8)
    >>> print(timeline.text(width=30))
    cpu 1 │██████████████    │ 75%
    cpu 2 │         ▒▒▒▒▒▒▒▒▒│ 50%
           0              1 s
           █ compute  ▒ copy
    """

    def __init__(self, spans_max: int = SPANS_MAX) -> None:
        """Start empty; spans that come after `spans_max` are counted in `dropped` and not kept."""
        self.spans_max = spans_max
        self.dropped = 0
        self._spans: list[Span] = []
        self._samples: list[Sample] = []

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self._spans)

    # -- filling -------------------------------------------------------------------------------------------------------

    def add(
        self,
        lane: str,
        name: str,
        start_s: float,
        end_s: float,
        *,
        kind: str = SpanKind.COMPUTE,
        flops: int = 0,
        nbytes: int = 0,
        group: str = "",
    ) -> None:
        """Add a span of `lane` (a stream or thread); `nbytes` is what it moved, `group` what pictures colour it by.

        Raises:
            ArgumentError: it ends before it starts, or the kind is none of `SpanKind`.
        """
        known = _KINDS.get(kind)
        if known is None:
            raise ArgumentError(f"span {name!r} is of kind {kind!r}", hint=f"kinds are {', '.join(SpanKind)}")
        if not start_s <= end_s:
            raise ArgumentError(f"span {name!r} ends at {end_s} s, before its start at {start_s} s")
        if len(self._spans) < self.spans_max:
            self._spans.append(Span(lane, name, start_s, end_s, known, flops, nbytes, group))
        else:
            self.dropped += 1

    def extend(self, spans: Iterable[Span]) -> None:
        """Add spans of another timeline.

        Raises:
            ArgumentError: as `add`.
        """
        for span in spans:
            self.add(*span[:4], kind=span.kind, flops=span.flops, nbytes=span.nbytes, group=span.group)

    @contextmanager
    def span(
        self, lane: str, name: str, *, kind: str = SpanKind.COMPUTE, flops: int = 0, nbytes: int = 0
    ) -> Generator[None]:
        """Add the time that the block takes as a span, also when it raises."""
        start_s = time.perf_counter()
        try:
            yield
        finally:
            self.add(lane, name, start_s, time.perf_counter(), kind=kind, flops=flops, nbytes=nbytes)

    def count(self, counter: str, value: float, at_s: float | None = None) -> None:
        """Note the value that a counter (memory in use, a queue's length) has from `at_s` on, by default from now on.

        Raises:
            ArgumentError: the value is not finite.
        """
        if not math.isfinite(value):
            raise ArgumentError(f"counter {counter!r} has the value {value}", hint="give a finite number")
        if len(self._samples) < self.spans_max:
            self._samples.append(Sample(counter, time.perf_counter() if at_s is None else at_s, value))
        else:
            self.dropped += 1

    def clear(self) -> None:
        """Forget everything, such as runs that warm up."""
        self._spans.clear()
        self._samples.clear()
        self.dropped = 0

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def spans(self) -> list[Span]:
        """All spans by their start; of those that start together the longest comes first."""
        return sorted(self._spans, key=lambda span: (span.start_s, -span.end_s))

    @property
    def samples(self) -> list[Sample]:
        """All samples of counters by time."""
        return sorted(self._samples, key=lambda sample: sample.at_s)

    @property
    def lanes(self) -> list[str]:
        """The lanes by name; `worker 10` comes after `worker 9`."""
        return sorted({span.lane for span in self._spans}, key=_natural)

    @property
    def start_s(self) -> float:
        """When the first span starts; 0 without spans."""
        return min((span.start_s for span in self._spans), default=0.0)

    @property
    def end_s(self) -> float:
        """When the last span ends; 0 without spans."""
        return max((span.end_s for span in self._spans), default=0.0)

    def rows(self) -> list[tuple[str, list[Span]]]:
        """Return (lane, spans) such that spans of a row do not overlap: a lane has as many rows as it needs.

        Vector come by name, the rows of one after each other; spans of a row are in order.
        """
        rows: dict[str, list[list[Span]]] = {lane: [] for lane in self.lanes}
        for span in self.spans:
            lane = rows[span.lane]
            free = next((row for row in lane if row[-1].end_s <= span.start_s), None)
            if free is None:
                lane.append([span])
            else:
                free.append(span)
        return [(lane, row) for lane, rows_of_lane in rows.items() for row in rows_of_lane]

    def busy_s(self, *kinds: SpanKind, lane: str | None = None) -> float:
        """Return the seconds in which a span of these kinds (default: compute or copy), of a lane, was under way.

        >>> timeline = Timeline(); timeline.add("a", "x", 0.0, 2.0); timeline.add("b", "y", 1.0, 4.0)
        >>> timeline.busy_s(), timeline.busy_s(lane="b"), timeline.busy_s(SpanKind.COPY)
        (4.0, 3.0, 0.0)
        """
        wanted = kinds if kinds else (SpanKind.COMPUTE, SpanKind.COPY)
        busy_s, reached_s = 0.0, -math.inf
        for span in self.spans:
            if span.kind in wanted and (lane is None or span.lane == lane):
                busy_s += max(0.0, span.end_s - max(reached_s, span.start_s))
                reached_s = max(reached_s, span.end_s)
        return busy_s

    def overlap_s(self, first: SpanKind = SpanKind.COPY, second: SpanKind = SpanKind.COMPUTE) -> float:
        """Return the seconds in which spans of both kinds were under way."""
        return self.busy_s(first) + self.busy_s(second) - self.busy_s(first, second)

    # -- showing -------------------------------------------------------------------------------------------------------

    def text(self, width: int = 100) -> str:
        """Return one line of `width` characters per row, a scale, and what the marks mean.

        A column shows what took most of its time and is blank where nothing was under way. Beside it stands the part
        of all the time in which the lane did not wait.
        """
        rows = self.rows()
        if not rows:
            return "(no spans)"
        total_s = self.end_s - self.start_s
        labels = labels_of(rows)
        margin = max(map(len, labels))
        columns = max(10, width - margin - 7)
        lines: list[str] = []
        for label, (_, row) in zip(labels, rows, strict=True):
            busy_s = sum(span.duration_s for span in row if span.kind is not SpanKind.WAIT)
            share = busy_s / total_s if total_s else 1.0
            lines.append(f"{label:<{margin}} │{_marks(row, self.start_s, total_s, columns)}│{share:>4.0%}")
        end = f"{total_s:.3g} s"
        lines.append(f"{'':<{margin}}  0{end:>{columns - 1}}")
        shown = {span.kind for span in self._spans}
        lines.append(f"{'':<{margin}}  {'  '.join(f'{MARKS[kind]} {kind}' for kind in SpanKind if kind in shown)}")
        return "\n".join(lines)

    def draw(self, path: str | os.PathLike[str], *, title: str = "") -> None:
        """Draw a line per row into an image file, of the kind that its ending names (png, svg, pdf).

        Raises:
            ArgumentError: there are no spans.
            UnavailableError: matplotlib cannot be imported.
            FileError: the file cannot be written.
        """
        from tazza.observers.timeline_picture import draw_timeline  # it draws what is defined here

        draw_timeline(path, self, title=title)


_KINDS: dict[str, SpanKind] = {kind.value: kind for kind in SpanKind}


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key by which numbers in names sort as numbers."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name)]


def labels_of(rows: Sequence[tuple[str, list[Span]]]) -> list[str]:
    """Return the lanes' names, each at the first of its rows."""
    names: list[str] = []
    for position, (lane, _) in enumerate(rows):
        again = position > 0 and rows[position - 1][0] == lane
        names.append("" if again else lane if len(lane) <= LABEL_MAX else f"{lane[: LABEL_MAX - 1]}…")
    return names


def _marks(row: list[Span], start_s: float, total_s: float, columns: int) -> str:
    """Return a mark for what takes most of each column's time."""
    taken_s = [dict.fromkeys(SpanKind, 0.0) for _ in range(columns)]
    column_s = total_s / columns if total_s else 1.0
    for span in row:
        begin, end = (span.start_s - start_s) / column_s, (span.end_s - start_s) / column_s
        for column in range(int(begin), min(math.ceil(end), columns)):
            taken_s[column][span.kind] += min(end, column + 1) - max(begin, column)
    marks: list[str] = []
    for taken in taken_s:
        most = max(taken, key=taken.__getitem__)
        marks.append(MARKS[most] if taken[most] > 0 else " ")
    return "".join(marks)
