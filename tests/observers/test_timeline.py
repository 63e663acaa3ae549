"""Timelines: rows without overlap, busy time, text, pictures."""

from __future__ import annotations

import itertools
import re
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError, FileError, UnavailableError
from tazza.observers.timeline import Span, SpanKind, Timeline

moments = st.integers(0, 40)


def span_of(lane: int, start: int, length: int, kind: SpanKind) -> Span:
    """Return a span of whole seconds."""
    return Span(f"lane {lane}", "x", float(start), float(start + length), kind)


spans = st.builds(span_of, st.integers(0, 2), moments, st.integers(0, 9), st.sampled_from(SpanKind))


def of(found: list[Span]) -> Timeline:
    """Return a timeline of these spans."""
    timeline = Timeline()
    timeline.extend(found)
    return timeline


@given(st.lists(spans, max_size=25))
def test_rows_hold_every_span_once_and_none_overlaps(found: list[Span]) -> None:
    rows = of(found).rows()
    assert sorted(span for _, row in rows for span in row) == sorted(found)
    for lane, row in rows:
        assert all(span.lane == lane for span in row)
        assert all(first.end_s <= second.start_s for first, second in itertools.pairwise(row))
    for lane in {span.lane for span in found}:  # no more rows than spans that are under way at one moment
        most = max(sum(span.start_s <= at < span.end_s for span in found if span.lane == lane) for at in range(50))
        empty = sum(span.duration_s == 0 for span in found if span.lane == lane)
        assert sum(row_lane == lane for row_lane, _ in rows) <= max(1, most + empty)


@given(st.lists(spans, max_size=25))
def test_busy_time_is_what_counting_moments_gives(found: list[Span]) -> None:
    def moments_of(*kinds: SpanKind) -> set[int]:
        return {at for at in range(50) for span in found if span.kind in kinds and span.start_s <= at < span.end_s}

    timeline = of(found)
    assert timeline.busy_s(*SpanKind) == len(moments_of(*SpanKind))
    assert timeline.busy_s() == len(moments_of(SpanKind.COMPUTE, SpanKind.COPY))
    assert timeline.overlap_s() == len(moments_of(SpanKind.COPY) & moments_of(SpanKind.COMPUTE))
    one = [span for span in found if span.lane == "lane 1"]
    assert timeline.busy_s(lane="lane 1") == of(one).busy_s()


def test_lanes_come_by_number_and_overlapping_spans_get_rows_of_their_own() -> None:
    timeline = Timeline()
    for lane in ("worker 10", "worker 9"):
        timeline.add(lane, "net", 1.0, 3.0)
        timeline.add(lane, "operator", 1.0, 2.0)
    assert timeline.lanes == ["worker 9", "worker 10"]
    assert [(lane, [span.name for span in row]) for lane, row in timeline.rows()] == [
        ("worker 9", ["net"]),
        ("worker 9", ["operator"]),
        ("worker 10", ["net"]),
        ("worker 10", ["operator"]),
    ]


def test_text_shows_each_kind_in_its_place() -> None:
    timeline = Timeline()
    timeline.add("a", "x", 5.0, 6.0, kind="compute")
    timeline.add("a", "y", 6.0, 7.0, kind="wait")
    timeline.add("a", "z", 7.0, 7.5, kind="copy")
    timeline.add("a much longer name than there is room for", "z", 6.0, 9.0, kind="copy")
    lines = timeline.text(width=24 + 7 + 16).splitlines()
    assert lines == [
        "a".ljust(24) + " │████····▒▒      │ 38%",
        "a much longer name than… │    ▒▒▒▒▒▒▒▒▒▒▒▒│ 75%",
        " " * 24 + "  0" + "4 s".rjust(15),
        " " * 24 + "  █ compute  ▒ copy  · wait",
    ]


def test_text_of_nothing_and_of_a_moment() -> None:
    timeline = Timeline()
    assert timeline.text() == "(no spans)"
    assert (timeline.start_s, timeline.end_s, timeline.busy_s()) == (0.0, 0.0, 0.0)
    timeline.add("a", "x", 2.0, 2.0)
    assert timeline.text().startswith("a │")


def test_spans_of_many_threads_all_arrive() -> None:
    timeline = Timeline()

    def fill(number: int) -> None:
        for position in range(200):
            timeline.add(f"thread {number}", str(position), float(position), position + 0.5)
            timeline.count("memory", position, at_s=float(position))

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(timeline) == len(timeline.samples) == 800
    assert [len(row) for _, row in timeline.rows()] == [200] * 4


def test_a_block_is_measured_also_when_it_fails() -> None:
    timeline = Timeline()
    with timeline.span("a", "first", kind="copy", nbytes=3):
        pass
    with pytest.raises(ZeroDivisionError), timeline.span("a", "second", flops=7):
        raise ZeroDivisionError
    first, second = timeline.spans
    assert (first.name, first.kind, first.nbytes) == ("first", SpanKind.COPY, 3)
    assert (second.name, second.kind, second.flops) == ("second", SpanKind.COMPUTE, 7)
    assert first.start_s <= first.end_s <= second.start_s <= second.end_s


def test_a_full_timeline_counts_what_it_drops() -> None:
    timeline = Timeline(spans_max=2)
    for position in range(5):
        timeline.add("a", "x", position, position + 1)
    assert (len(timeline), timeline.dropped) == (2, 3)
    timeline.clear()
    assert (len(timeline), timeline.dropped, timeline.samples) == (0, 0, [])


def test_mistakes_are_named() -> None:
    timeline = Timeline()
    with pytest.raises(ArgumentError, match="'x' ends at 1 s, before its start at 2 s"):
        timeline.add("a", "x", 2, 1)
    with pytest.raises(ArgumentError, match="ends at nan s"):
        timeline.add("a", "x", 2, float("nan"))
    with pytest.raises(ArgumentError, match=r"of kind 'sleep'\n  hint: kinds are compute, copy, wait"):
        timeline.add("a", "x", 1, 2, kind="sleep")
    with pytest.raises(ArgumentError, match="'memory' has the value inf"):
        timeline.count("memory", float("inf"))
    with pytest.raises(ArgumentError, match="no spans to draw"):
        timeline.draw("x.png")


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnavailableError, match=r"pip install 'tazza\[pictures\]'"):
        of([Span("a", "x", 0.0, 1.0)]).draw(tmp_path / "a.png")


@pytest.mark.slow  # importing matplotlib takes a second
def test_pictures(tmp_path: Path) -> None:
    timeline = of([Span("stream 1", "Conv", 0.0, 2e-3), Span("stream 2", "x < y", 1e-3, 3e-3, SpanKind.COPY)])
    timeline.draw(tmp_path / "a.png", title="two")
    timeline.draw(tmp_path / "a.svg")
    of([Span("a", "moment", 1.0, 1.0)]).draw(tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "a.svg").read_text()
    for text in ("stream 1", "stream 2", "Conv", "compute", "copy", "time (ms)"):
        assert f"<!-- {text} -->" in svg
    assert "<!-- wait -->" not in svg
    with pytest.raises(FileError, match="there is no folder"):
        timeline.draw(tmp_path / "missing" / "a.png")


@pytest.mark.slow
def test_groups_have_colours_and_names_are_whole_or_left_out(tmp_path: Path) -> None:
    spans = [
        Span("a", f"Type{place} long/name/{place}", place, place + 1.0, group=f"Type{place}") for place in range(12)
    ]
    short = Span("a", "Type0 nobody/reads/this", 12.0, 12.001, group="Type0")
    of([*spans, short, Span("a", "idle", 13.0, 14.0, SpanKind.WAIT)]).draw(tmp_path / "a.svg", title="word " * 60)
    shown = re.findall("<!-- (.*?) -->", (tmp_path / "a.svg").read_text(), re.DOTALL)
    assert {"Type0 8%", "Type8 8%", "others 25%", "wait"} <= set(shown)
    assert "Type9 8%" not in shown
    assert {"Type3 long/name/3", "Type3\nlong/name/3"} & set(shown)
    assert not [text for text in shown if "nobody" in text]
    title = [text for text in shown if text.startswith("word")]
    assert " ".join(title).split() == ["word"] * 60
    assert max(map(len, title)) < 110
