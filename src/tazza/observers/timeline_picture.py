"""Timelines as pictures: a line for each row of a lane, colours for groups of spans. Needs matplotlib, imported on use.

Names stand over their spans as a whole or not at all; the legend says what the groups are, and their share of the time.
"""

from __future__ import annotations

import os
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.observers.drawing import new_figure, save_figure
from tazza.observers.timeline import Span, SpanKind, Timeline, labels_of

WIDTH, FRAME_HEIGHT, LINE_HEIGHT = 10.0, 1.0, 0.22
"""Of a picture, of what is around its rows, and of a line of a title or legend, in inches."""
ROW_HEIGHTS = ((2, 1.6), (6, 0.8), (1 << 30, 0.4))
"""Up to so many rows, each has so many inches: names stand upright where there is room."""
BAR = 0.8
"""Share of a row's height that its bars have."""
LETTER_WIDTH, LETTER_HEIGHT = 0.058, 0.125
"""Inches that a letter of a span's name has, on average, and a line of them."""
TITLE_LETTERS = 105
"""Letters of a title in a line."""
LEGEND_COLUMNS = 6
COLORS = {SpanKind.COMPUTE: "C0", SpanKind.COPY: "C1", SpanKind.WAIT: "0.85"}
"""Of spans without a group; matplotlib's names: blue, orange, light grey."""
GROUP_COLORS = ("C0", "C1", "C2", "C3", "C4", "C5", "C6", "C8", "C9")
OTHERS, OTHERS_COLOR = "others", "0.55"
"""Groups for which there is no colour left, those with the least time."""
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a span lies: `factor` makes the picture's unit of seconds, `inches` its width of seconds."""

    start_s: float
    factor: float
    inches: float
    row_height: float


def draw_timeline(path: str | os.PathLike[str], timeline: Timeline, *, title: str = "") -> None:
    """Draw a timeline into an image file, of the kind that its ending names (png, svg, pdf).

    Spans of a group have a colour of their own, others that of their kind; names are written where the whole name fits.

    Raises:
        ArgumentError: there are no spans.
        UnavailableError: matplotlib cannot be imported.
        FileError: the file cannot be written.
    """
    rows = timeline.rows()
    if not rows:
        raise ArgumentError("there are no spans to draw", hint="run something first")
    total_s = timeline.end_s - timeline.start_s
    unit, factor = next(((unit, factor) for unit, factor in UNITS if total_s * factor >= 1), UNITS[-1])
    colors = _colors([span for _, row in rows for span in row])
    lines = textwrap.wrap(title, TITLE_LETTERS)
    row_height = next(height for rows_max, height in ROW_HEIGHTS if len(rows) <= rows_max)
    height = FRAME_HEIGHT + LINE_HEIGHT * (len(lines) - (-len(colors) // LEGEND_COLUMNS)) + row_height * len(rows)
    figure = new_figure(WIDTH, height)
    axes = figure.add_subplot(1, 1, 1, xlabel=f"time ({unit})")
    if lines:
        figure.suptitle("\n".join(lines), fontsize=10)
    labels = labels_of(rows)
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, max(total_s * factor, 1e-9))
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    wide = WIDTH - 0.3 - 0.085 * max(map(len, labels))  # without the frame and the names of lanes
    scale = _Scale(timeline.start_s, factor, wide / total_s if total_s else 0.0, row_height)
    handles: dict[str, Any] = {}
    for position, (_, row) in enumerate(rows):
        _draw_row(axes, position, row, scale, colors, handles)
    shown = [label for label in colors if label in handles]
    figure.legend(
        [handles[label] for label in shown],
        [colors[label][1] for label in shown],
        loc="outside lower right",
        ncols=LEGEND_COLUMNS,
        frameon=False,
        fontsize=8,
    )
    save_figure(figure, path)


def _key(span: Span) -> str:
    return span.group if span.group and span.kind is not SpanKind.WAIT else span.kind.value


def _colors(spans: Sequence[Span]) -> dict[str, tuple[str, str]]:
    """Return a colour and a text for each group, that of the longest time first, and then for each kind.

    Groups without a colour of their own share one.
    """
    taken_s: defaultdict[str, float] = defaultdict(float)
    kinds: dict[str, tuple[str, str]] = {}
    for span in spans:
        if _key(span) == span.group:
            taken_s[span.group] += span.duration_s
        else:
            kinds[span.kind.value] = (COLORS[span.kind], span.kind.value)
    longest = sorted(taken_s, key=lambda group: -taken_s[group])
    whole_s = sum(taken_s.values())
    found: dict[str, tuple[str, str]] = {}
    for place, group in enumerate(longest):
        own = place < len(GROUP_COLORS)
        part_s = taken_s[group] if own else sum(taken_s[each] for each in longest[len(GROUP_COLORS) :])
        text = f"{group if own else OTHERS} {part_s / whole_s:.0%}" if whole_s else group
        found[group] = (GROUP_COLORS[place] if own else OTHERS_COLOR, text)
    return found | {kind.value: kinds[kind.value] for kind in SpanKind if kind.value in kinds}


def _draw_row(
    axes: Any,
    position: int,
    row: Sequence[Span],
    scale: _Scale,
    colors: Mapping[str, tuple[str, str]],
    handles: dict[str, Any],
) -> None:
    by_key: defaultdict[str, list[Span]] = defaultdict(list)
    for span in row:
        by_key[_key(span)].append(span)
    texts = {text for _, text in (colors[key] for key in handles)}
    for key, spans in by_key.items():
        bars = [((span.start_s - scale.start_s) * scale.factor, span.duration_s * scale.factor) for span in spans]
        color, text = colors[key]
        edge = "white" if len(row) < 200 else "none"
        drawn = axes.broken_barh(bars, (position - BAR / 2, BAR), color=color, edgecolor=edge, linewidth=0.3)
        if text not in texts:
            handles[key] = drawn
            texts.add(text)
        for span, (left, length) in zip(spans, bars, strict=True):
            if span.kind is not SpanKind.WAIT:
                _write_name(axes, span, (left + length / 2, position), scale)


def _write_name(axes: Any, span: Span, middle: tuple[float, float], scale: _Scale) -> None:
    """Write the name of a span over it, in one line or more, flat or upright, if all of it fits in one of these."""
    width, height = span.duration_s * scale.inches, scale.row_height * BAR
    for text in (span.name, span.name.replace(" ", "\n", 1), span.name.replace(" ", "\n")):
        lines = text.split("\n")
        long, high = LETTER_WIDTH * (1 + max(map(len, lines))), LETTER_HEIGHT * len(lines)
        for upright, fits in ((False, long <= width and high <= height), (True, high <= width and long <= height)):
            if fits:
                rotation = 90 if upright else 0
                axes.text(*middle, text, ha="center", va="center", fontsize=7, color="white", rotation=rotation)
                return
