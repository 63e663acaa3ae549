"""Traces: JSON that follows the Trace Event Format, checked by a checker that is shown to refuse what breaks it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import FileError, FormatError
from tazza.observers.timeline import SpanKind, Timeline
from tazza.observers.trace import check_trace, trace_document, write_trace


def overlapping() -> Timeline:
    """Return a timeline of 1 s of compute at 4 GFLOP/s, with a copy of 3 GB/s in its second half."""
    timeline = Timeline()
    timeline.add("cpu 1", 'Conv "a"', 10.0, 11.0, flops=4 * 10**9, nbytes=5)
    timeline.add("copier", "W → w", 10.5, 11.0, kind="copy", nbytes=15 * 10**8)
    timeline.count("MiB in use", 7, at_s=10.25)
    return timeline


def events_of(document: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    """Return the events of one phase."""
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def test_spans_threads_and_counters(tmp_path: Path) -> None:
    write_trace(tmp_path / "run.json", overlapping(), process="net")
    document = json.loads((tmp_path / "run.json").read_text("utf-8"))
    copier, compute = sorted(events_of(document, "X"), key=lambda event: event["tid"])
    assert compute == {
        "ph": "X", "name": 'Conv "a"', "cat": "compute", "pid": 1, "tid": 2, "ts": 0.0, "dur": 1e6,
        "args": {"flops": 4 * 10**9, "bytes": 5},
    }  # fmt: skip
    assert (copier["name"], copier["cat"], copier["ts"], copier["dur"]) == ("W → w", "copy", 5e5, 5e5)
    names = {(event["name"], event["tid"]): event["args"] for event in events_of(document, "M")}
    assert names["process_name", 0] == {"name": "net"}
    assert (names["thread_name", 1], names["thread_name", 2]) == ({"name": "copier"}, {"name": "cpu 1"})
    assert [(event["ts"], event["args"]) for event in events_of(document, "C")] == [
        (25e4, {"MiB in use": 7}),
        (0.0, {"GFLOP/s": 4.0}),
        (1e6, {"GFLOP/s": 0.0}),
        (5e5, {"GB/s copied": 3.0}),
        (1e6, {"GB/s copied": 0.0}),
    ]


def test_rates_of_spans_add_up() -> None:
    timeline = Timeline()
    timeline.add("a", "x", 0.0, 3.0, flops=3 * 10**9)
    timeline.add("b", "y", 1.0, 2.0, flops=10**9)
    rates = [event["args"]["GFLOP/s"] for event in events_of(trace_document(timeline), "C")]
    assert rates == [1.0, 2.0, 1.0, 0.0]


times = st.floats(0, 1e4, allow_subnormal=False)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=5), times, times, st.sampled_from(SpanKind)), max_size=9)
)
def test_every_timeline_gives_a_valid_trace(found: list[tuple[str, str, float, float, SpanKind]]) -> None:
    timeline = Timeline()
    for lane, name, start_s, length_s, kind in found:
        timeline.add(lane, name, start_s, start_s + length_s, kind=kind, flops=5, nbytes=3)
    document = trace_document(timeline)
    check_trace(json.loads(json.dumps(document, allow_nan=False)))
    assert len(events_of(document, "X")) == len(found)


def test_a_sample_before_the_first_span_starts_the_trace(tmp_path: Path) -> None:
    timeline = Timeline()
    timeline.count("queue", 1, at_s=5.0)
    write_trace(tmp_path / "a.json", timeline)
    timeline.add("a", "x", 6.0, 7.0)
    document = trace_document(timeline)
    check_trace(document)
    assert events_of(document, "X")[0]["ts"] == 1e6


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no folder"):
        write_trace(tmp_path / "missing" / "run.json", overlapping())
    assert list(tmp_path.iterdir()) == []


BROKEN: list[tuple[str, str, Any, str]] = [
    ("X", "ts", None, "'ts' is None"),
    ("X", "dur", -1.0, "'dur' is -1"),
    ("X", "ts", float("nan"), "'ts' is nan"),
    ("X", "pid", "one", "'pid' is 'one'"),
    ("X", "tid", True, "'tid' is True"),
    ("X", "name", 3, "'name' is 3"),
    ("X", "args", [], "'args' is"),
    ("X", "ph", "x", "phase is 'x', not one of X, C, M"),
    ("X", "ph", [], "phase is"),
    ("C", "args", {}, "values are numbers"),
    ("C", "args", {"a": "1"}, "values are numbers"),
    ("M", "name", "thread", "'name' is 'thread'"),
    ("M", "args", {"label": "a"}, "is None"),
]


@pytest.mark.parametrize(("phase", "field", "value", "message"), BROKEN)
def test_the_checker_refuses(phase: str, field: str, value: object, message: str) -> None:
    document = copy.deepcopy(trace_document(overlapping()))
    events_of(document, phase)[0][field] = value
    with pytest.raises(FormatError, match=message):
        check_trace(document)


def test_the_checker_refuses_what_is_missing_or_overlaps() -> None:
    document = trace_document(overlapping())
    with pytest.raises(FormatError, match="traceEvents is NoneType"):
        check_trace({})
    with pytest.raises(FormatError, match="displayTimeUnit is 's'"):
        check_trace({**document, "displayTimeUnit": "s"})
    with pytest.raises(FormatError, match="event 0 of the trace: not an object"):
        check_trace({"traceEvents": [3]})
    event = events_of(document, "X")[0]
    without = {name: value for name, value in event.items() if name != "dur"}
    with pytest.raises(FormatError, match="'dur' is missing"):
        check_trace({"traceEvents": [without]})
    within, across = {**event, "dur": 5.0}, {**event, "ts": event["ts"] + 3, "dur": event["dur"]}
    check_trace({"traceEvents": [within, event]})
    with pytest.raises(FormatError, match="overlaps the end of another"):
        check_trace({"traceEvents": [event, across]})
