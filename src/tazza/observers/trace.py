"""Traces: a timeline as JSON that chrome://tracing and https://ui.perfetto.dev open.

    write_trace("run.json", timeline)

A lane becomes a thread, which a metadata event ("M") names and puts in order; a span becomes a complete event ("X"),
whose category is its kind; counters ("C") are those of the timeline, and the rates at which its spans compute and copy.
Spans of a lane that overlap go to several threads of one name, since complete events of a thread have to nest.

Source: "Trace Event Format", the document of the Chromium project: sections JSON Object Format, Complete Events,
Counter Events, Metadata Events.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from tazza.errors import FormatError
from tazza.observers.timeline import Span, SpanKind, Timeline
from tazza.runtime.files import write_bytes_atomically

PROCESS = 1
"""Number of the one process of our traces."""
RATES = {"GFLOP/s": ("flops", 1e-9), "GB/s copied": ("nbytes", 1e-9)}
"""Counters that follow from spans: what is counted, and its unit. Bytes are counted in copies only."""

Event = dict[str, Any]


def write_trace(path: str | os.PathLike[str], timeline: Timeline, *, process: str = "tazza") -> None:
    """Write a timeline as trace JSON; the file appears as a whole.

    Raises:
        FileError: the file cannot be written.
    """
    write_document(path, trace_document(timeline, process=process))


def trace_document(
    timeline: Timeline, *, process: str = "tazza", number: int = PROCESS, origin_s: float | None = None
) -> dict[str, Any]:
    """Return the trace of a timeline; times are in µs since `origin_s`, by default its first span.

    Traces of several processes have numbers and one origin, and can be joined (`joined_documents`).

    >>> timeline = Timeline(); timeline.add("cpu 1", "Conv", 2.0, 2.5, flops=10**9)
    >>> [event["ph"] for event in trace_document(timeline)["traceEvents"]]
    ['M', 'M', 'M', 'X', 'C', 'C']
    """
    first = [timeline.start_s] if len(timeline) else []
    if origin_s is None:
        origin_s = min(first + [sample.at_s for sample in timeline.samples], default=0.0)
    events = [_metadata("process_name", 0, name=process)]
    for thread, (lane, row) in enumerate(timeline.rows(), start=1):
        events.append(_metadata("thread_name", thread, name=lane))
        events.append(_metadata("thread_sort_index", thread, sort_index=thread))
        events += [_complete(span, thread, origin_s) for span in row]
    events += [_counter(sample.counter, sample.at_s - origin_s, sample.value) for sample in timeline.samples]
    events += _rates(timeline.spans, origin_s)
    for event in events:
        event["pid"] = number
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"dropped spans": str(timeline.dropped)}}


def joined_documents(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one trace with the events of several, which have processes of their own.

    >>> timeline = Timeline(); timeline.add("cpu 1", "Conv", 2.0, 2.5)
    >>> joined = joined_documents(trace_document(timeline, number=number, origin_s=1.0) for number in (1, 2))
    >>> [(event["pid"], event["ts"]) for event in joined["traceEvents"] if event["ph"] == "X"]
    [(1, 1000000.0), (2, 1000000.0)]
    """
    events = [event for document in documents for event in document["traceEvents"]]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_document(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Write a trace; the file appears as a whole.

    Raises:
        FormatError: it is none.
        FileError: the file cannot be written.
    """
    check_trace(document)
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    write_bytes_atomically(path, text.encode("utf-8", "replace"))


def _metadata(name: str, thread: int, /, **args: object) -> Event:
    return {"ph": "M", "name": name, "pid": PROCESS, "tid": thread, "args": args}


def _complete(span: Span, thread: int, origin_s: float) -> Event:
    # Rounded before they are subtracted: spans that touch still touch, in whole nanoseconds.
    start_ns, end_ns = (round((at_s - origin_s) * 1e9) for at_s in (span.start_s, span.end_s))
    args = {name: value for name, value in (("flops", span.flops), ("bytes", span.nbytes)) if value}
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind.value,
        "pid": PROCESS,
        "tid": thread,
        "ts": start_ns / 1e3,
        "dur": (end_ns - start_ns) / 1e3,
        "args": args,
    }


def _counter(name: str, at_s: float, value: float) -> Event:
    return {"ph": "C", "name": name, "pid": PROCESS, "tid": 0, "ts": round(at_s * 1e9) / 1e3, "args": {name: value}}


def _rates(spans: Sequence[Span], origin_s: float) -> list[Event]:
    """Return counters of what all spans that are under way do in a second, taking each as steady."""
    events: list[Event] = []
    for name, (field, unit) in RATES.items():
        steps: dict[float, list[float]] = {}
        for span in spans:
            amount = getattr(span, field) if field == "flops" or span.kind is SpanKind.COPY else 0
            if amount and span.duration_s > 0:
                rate = unit * amount / span.duration_s
                steps.setdefault(span.start_s, []).append(rate)
                steps.setdefault(span.end_s, []).append(-rate)
        running: list[float] = []
        for at_s in sorted(steps):
            for step in steps[at_s]:  # a rate that ends is taken out, so that no rounding error is left
                running.append(step) if step > 0 else running.remove(-step)
            events.append(_counter(name, at_s - origin_s, round(math.fsum(running), 6)))
    return events


# -- checking ----------------------------------------------------------------------------------------------------------


def check_trace(document: Mapping[str, Any]) -> None:
    """Check that a document is a trace of the kinds of events that this module writes.

    Raises:
        FormatError: it is not, or complete events of a thread overlap without one holding the other; says which event.
    """
    events = document.get("traceEvents")
    if not isinstance(events, list):
        raise FormatError(f"traceEvents is {type(events).__name__}, it should be a list")
    for position, event in enumerate(cast("list[Any]", events)):
        problem = _problem(event)
        if problem is not None:
            raise FormatError(f"event {position} of the trace: {problem}: {event!r:.200}")
    unit = document.get("displayTimeUnit", "ms")
    if unit not in ("ms", "ns"):
        raise FormatError(f"displayTimeUnit is {unit!r}, it should be 'ms' or 'ns'")
    _check_nesting(event for event in cast("list[Event]", events) if event["ph"] == "X")


def _problem(event: Any) -> str | None:
    """Return what is wrong with an event by itself."""
    if not isinstance(event, dict):
        return "not an object"
    found = cast("Event", event)
    phase = found.get("ph")
    required = _REQUIRED.get(phase) if isinstance(phase, str) else None
    if required is None:
        return f"its phase is {phase!r}, not one of {', '.join(_REQUIRED)}"
    for name, valid in required.items():
        if name not in found:
            return f"{name!r} is missing"
        if not valid(found[name]):
            return f"{name!r} is {found[name]!r}"
    return _args_problem(found)


def _args_problem(event: Event) -> str | None:
    args: Event = event["args"]
    if event["ph"] == "C" and not (args and all(map(_is_number, args.values()))):
        return "a counter's values are numbers"
    if event["ph"] == "M":
        wanted = "sort_index" if event["name"].endswith("_sort_index") else "name"
        valid = _is_count if wanted == "sort_index" else _is_text
        return None if valid(args.get(wanted)) else f"args[{wanted!r}] is {args.get(wanted)!r}"
    return None


def _check_nesting(events: Iterable[Event]) -> None:
    threads: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for thread in threads.values():
        thread.sort(key=lambda event: (event["ts"], -event["dur"]))
        ends: list[float] = []
        for event in thread:
            start, end = event["ts"], event["ts"] + event["dur"]
            while ends and ends[-1] <= start + _ROUNDING:
                ends.pop()
            if ends and end > ends[-1] + _ROUNDING:
                raise FormatError(f"event {event['name']!r} of thread {event['tid']} overlaps the end of another")
            ends.append(end)


_ROUNDING = 0.5e-3
"""Half a nanosecond, in µs."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_time(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_metadata(value: Any) -> bool:
    return value in ("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index")


_IN_PROCESS: dict[str, Callable[[Any], bool]] = {"pid": _is_count, "tid": _is_count, "args": _is_object}
_REQUIRED: dict[str, dict[str, Callable[[Any], bool]]] = {
    "X": {"name": _is_text, "cat": _is_text, "ts": _is_time, "dur": _is_time, **_IN_PROCESS},
    "C": {"name": _is_text, "ts": _is_time, **_IN_PROCESS},
    "M": {"name": _is_metadata, **_IN_PROCESS},
}
"""What an event of each phase has to have, and what that may be."""
