"""A net as a picture: the levels of a document as SVG, in light and dark, with nothing but what SVG itself can do.

It shows what the page shows when it opens: repeated blocks of a large net folded. The measures are the page's own
(`geometry.py`), and columns, rows and curves follow from them in the same way (`graph.js`); widths of texts are
estimated, since nobody here can measure them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any
from xml.sax.saxutils import escape

from tazza.data_class import dataclass
from tazza.observers.view.geometry import SIZES, TIMES
from tazza.observers.view.layout import ENTRY, Way
from tazza.runtime.files import write_bytes_atomically

MARGIN = 24
CHARACTER = 7.2
"""Estimated pixels of a character of 12.5 px; those of types are bold and 14 px."""
BOLD = 8.6
LIGHT = ("#3b6fd4", "#d98e04", "#3a9d4f", "#c9473a", "#8b5fd0", "#1f9c9c", "#c24f8f", "#8a6a45", "#8d939e")
STYLE = """
svg{background:#fbfbfa;font:12.5px system-ui,"DejaVu Sans",sans-serif}
.body{fill:#fff;stroke:#d9dbdf;stroke-width:1.2}.frame{fill:#6b72800f;stroke:#d9dbdf}
.type{font-size:14px;font-weight:600;fill:#1c1e21}.soft{fill:#5c6370}.end{text-anchor:end}.mid{text-anchor:middle;fill:#1c1e21}
.edges{fill:none;stroke:#8a909c;stroke-width:1.3}
@media(prefers-color-scheme:dark){svg{background:#15171b}.body{fill:#1f2228;stroke:#363b44}.frame{fill:#ffffff0a;stroke:#363b44}
.type,.mid{fill:#e8eaee}.soft{fill:#a3abb8}.edges{stroke:#6d7585}}
"""

Json = Mapping[str, Any]


def write_picture(path: str | os.PathLike[str], document: Json, stage: int = 0) -> None:
    """Write the picture of a stage of a document (`document_of`) as SVG; the file appears as a whole.

    Raises:
        FileError: the file cannot be written.
    """
    write_bytes_atomically(path, picture_of(document, stage).encode())


def picture_of(document: Json, stage: int = 0) -> str:
    """Return the picture of a stage."""
    shown = document["stages"][stage]
    drawing = _Drawing(shown["ops"], document["families"], len(shown["ops"]) > SIZES.fold_from)
    measured = drawing.measure(shown["root"])
    drawing.place(shown["root"], measured, MARGIN, MARGIN)
    width, height = measured.width + 2 * MARGIN, measured.height + 2 * MARGIN + drawing.legend_height
    legend = drawing.legend(measured.height + 2 * MARGIN)
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    edges = f'<path class="edges" d="{"".join(drawing.curves)}"/>'
    body = "\n".join((*drawing.frames, edges, *drawing.nodes, *legend))
    title = escape(_printable(str(document["name"])))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<title>{title}</title><style>{STYLE}</style>'
    return f"{head}\n{body}\n</svg>\n"


@dataclass(slots=True)
class _Extent:
    """How far an item reaches to both sides of its port, and down; `inner` where it is unfolded."""

    left: float
    right: float
    height: float
    inner: _Measured | None = None


@dataclass(slots=True)
class _Measured:
    """Columns and rows of a level."""

    extents: list[_Extent]
    x: list[float]
    gutter: list[float]
    step: list[float]
    y: list[float]
    high: list[float]
    width: float
    height: float


@dataclass(slots=True)
class _Drawing:
    """What is drawn so far, by what lies over what."""

    ops: Sequence[Json]
    families: Sequence[str]
    fold: bool
    frames: list[str] = field(default_factory=list[str])
    curves: list[str] = field(default_factory=list[str])
    nodes: list[str] = field(default_factory=list[str])
    used: dict[int, str] = field(default_factory=dict[int, str])

    # -- measures ------------------------------------------------------------------------------------------------------

    def folded(self, item: Json) -> bool:
        """Whether an item that has something within is drawn as one."""
        return self.fold and (item.get("x", 1) > 1 or "op" in item)

    def extent(self, item: Json) -> _Extent:
        """Return how large an item is."""
        if item["k"] in ("in", "out"):
            half = min(SIZES.width, max(70, len(item["name"]) * CHARACTER + 28)) / 2
            return _Extent(half, half, SIZES.pill)
        if "in" not in item or self.folded(item):
            return _Extent(SIZES.width / 2, SIZES.width / 2, SIZES.height)
        inner = self.measure(item["in"])
        left = inner.x[0] + SIZES.pad
        right = max(inner.width - inner.x[0] + SIZES.pad, 230 - left)
        return _Extent(left, right, SIZES.heading + inner.height + SIZES.pad, inner)

    def measure(self, level: Json) -> _Measured:
        """Return columns and rows of a level."""
        items: Sequence[Json] = level["i"]
        tracks: Sequence[int] = level["t"]
        rows: int = level["n"]
        extents = [self.extent(item) for item in items]
        lanes = max(1, len(tracks))
        left, right, high = [0.0] * lanes, [0.0] * lanes, [0.0] * (rows + 2)
        for item, extent in zip(items, extents, strict=True):
            lane, row = _place(item)
            left[lane] = max(left[lane], extent.left)
            if extent.inner is None or "r" not in item:
                right[lane] = max(right[lane], extent.right)
            high[row] = max(high[row], extent.height)
        x, gutter, step, cursor = list[float](), list[float](), list[float](), 0.0
        for lane in range(lanes):
            count = tracks[lane] if lane < len(tracks) else 0
            x.append(cursor + left[lane])
            gutter.append(x[-1] + right[lane] + SIZES.gutter)
            step.append(min(SIZES.track, SIZES.tracks_width / count) if count else 0)
            cursor = x[-1] + right[lane] + (SIZES.gutter + step[-1] * (count - 1) if count else 0) + SIZES.lane_gap
        reach = (x[_place(item)[0]] + extent.right for item, extent in zip(items, extents, strict=True))
        width = max(cursor - SIZES.lane_gap, 10, *reach)
        enters, leaves = (any(edge[end] == at for edge in level["e"]) for end, at in ((0, ENTRY), (1, len(items))))
        y, down = [0.0], float(SIZES.row_gap if enters else 0)
        for row in range(1, rows + 1):
            y.append(down)
            down += high[row] + (SIZES.row_gap if row < rows or leaves else 0)
        return _Measured(extents, x, gutter, step, [*y, down], high, width, down)

    # -- drawing -------------------------------------------------------------------------------------------------------

    def place(self, level: Json, measured: _Measured, left: float, top: float) -> None:
        """Draw a level with its corner at a point."""
        for item, extent in zip(level["i"], measured.extents, strict=True):
            lane, row = _place(item)
            port, y = left + measured.x[lane], top + measured.y[row]
            if extent.inner is None:
                self.nodes.extend(self.node(item, port - extent.left, y, extent))
                continue
            x = port - extent.left
            size = f'width="{extent.left + extent.right:g}" height="{extent.height:g}"'
            title = _cut(self.title(item), extent.left + extent.right - 24, CHARACTER)
            self.frames.append(f'<rect class="frame" x="{x:g}" y="{y:g}" {size} rx="10"/>')
            self.frames.append(f'<text class="soft" font-weight="600" x="{x + 12:g}" y="{y + 18:g}">{title}</text>')
            self.place(item["in"], extent.inner, x + SIZES.pad, y + SIZES.heading)
        self.curves.extend(self.curve(edge, level, measured, left, top) for edge in level["e"])

    def curve(self, edge: Sequence[int], level: Json, measured: _Measured, left: float, top: float) -> str:
        """Return the path of an edge."""
        source, target, way, lane, track = (*edge, *(0,) * (5 - len(edge)))
        items: Sequence[Json] = level["i"]
        gap = SIZES.row_gap
        x0, y0, row_end = left + measured.x[0], top, top
        if source != ENTRY:
            begins, row = _place(items[source])
            x0, y0 = left + measured.x[begins], top + measured.y[row] + measured.extents[source].height
            row_end = top + measured.y[row] + measured.high[row]
        x1, y1 = left + measured.x[0], top + measured.height
        if target != len(items):
            ends, row = _place(items[target])
            x1, y1 = left + measured.x[ends], top + measured.y[row]
        start = f"M{x0:g} {y0:g}"
        if way == Way.SHORT:
            return start + _bend(x0, row_end, x1, y1)
        x = left + (measured.x[lane] if way == Way.LANE else measured.gutter[lane] + track * measured.step[lane])
        return f"{start}{_bend(x0, row_end, x, row_end + gap)}V{y1 - gap:g}{_bend(x, y1 - gap, x1, y1)}"

    def node(self, item: Json, x: float, y: float, extent: _Extent) -> Iterator[str]:
        """Yield what is drawn of an operator, of what is folded, or of an input or output."""
        width, height = extent.left + extent.right, extent.height
        box = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        if item["k"] in ("in", "out"):
            text = _cut(item["name"], width - 20, CHARACTER)
            yield f'<rect class="body" {box} rx="{height / 2:g}"/>'
            yield f'<text class="mid" x="{x + extent.left:g}" y="{y + height / 2 + 4.5:g}">{text}</text>'
            return
        facts = [self.ops[op] for op in _ops_in(item)]
        color = self.color(max(facts, key=lambda one: one.get("c", 0)))
        shape = _dims(facts[-1] if "op" not in item else facts[0])
        title, name = self.title(item), self.name(item, facts)
        room = width - 25
        yield f"<g><title>{_text(f'{title} {name} {shape}')}</title>"
        if "in" in item:
            yield f'<rect class="body" x="{x + 5:g}" y="{y + 5:g}" width="{width:g}" height="{height:g}" rx="7"/>'
        yield f'<rect class="body" {box} rx="7"/><rect {box} rx="7" fill="{color}" opacity=".14"/>'
        yield f'<rect x="{x:g}" y="{y:g}" width="7" height="{height:g}" rx="3" fill="{color}"/>'
        left = room - len(title) * BOLD - 8
        yield f'<text class="type" x="{x + 15:g}" y="{y + 19:g}">{_cut(title, room, BOLD)}</text>'
        if len(shape) * CHARACTER <= left:
            yield f'<text class="soft end" x="{x + width - 10:g}" y="{y + 19:g}">{_text(shape)}</text>'
        yield f'<text class="soft" x="{x + 15:g}" y="{y + 37:g}">{_cut(name, room, CHARACTER)}</text></g>'

    def color(self, facts: Json) -> str:
        """Return the colour of an operator's family, and remember it for the legend."""
        at = self.families.index(facts["f"]) if facts["f"] in self.families else len(LIGHT)
        at = min(at, len(LIGHT) - 1)
        self.used[at] = "others" if at == len(LIGHT) - 1 else str(facts["f"])
        return LIGHT[at]

    def title(self, item: Json) -> str:
        """Return the first line of an item."""
        if "op" in item:
            op: int = item["op"]
            return str(self.ops[op]["t"])
        first = self.ops[_ops_in(item)[0]]
        name = item["name"]
        text = name if item["k"] == "net" else f"block {name}" if name else first["t"]
        return f"{text} {TIMES} {item['x']}" if item.get("x", 1) > 1 else text

    def name(self, item: Json, facts: Sequence[Json]) -> str:
        """Return the second line of an item."""
        if "op" in item:
            written = facts[0]["o"]
            return written[0][0] if written else f"{len(facts) - 1} operators within" if len(facts) > 1 else ""
        return f"{len(facts)} operators: {', '.join(dict.fromkeys(one['t'] for one in facts))}"

    # -- legend --------------------------------------------------------------------------------------------------------

    @property
    def legend_height(self) -> int:
        """Pixels of the legend below the net."""
        return 20 * len(self.used)

    def legend(self, top: float) -> Iterator[str]:
        """Yield a line for each colour."""
        for number, at in enumerate(sorted(self.used)):
            y = top - 8 + 20 * number
            yield f'<rect x="{MARGIN}" y="{y:g}" width="11" height="11" rx="3" fill="{LIGHT[at]}"/>'
            yield f'<text class="soft" x="{MARGIN + 18}" y="{y + 10:g}">{_text(self.used[at])}</text>'


def _place(item: Json) -> tuple[int, int]:
    """Return lane and layer of an item."""
    return item["n"], item["l"]


def _bend(xa: float, ya: float, xb: float, yb: float) -> str:
    """Return a curve that leaves and arrives upright."""
    if abs(xa - xb) < 0.5:
        return f"V{yb:g}"
    half = (yb - ya) * 0.75
    return f"V{ya:g}C{xa:g} {ya + half:g} {xb:g} {yb - half:g} {xb:g} {yb:g}"


def _ops_in(item: Json) -> list[int]:
    own = [item["op"]] if "op" in item else []
    return own + [op for inner in item.get("in", {"i": ()})["i"] for op in _ops_in(inner)]


def _dims(facts: Json) -> str:
    spec = facts["o"][0][1] if facts["o"] else ""
    return spec.partition(" ")[2].replace(f" {TIMES} ", TIMES)


def _cut(text: str, width: float, character: float) -> str:
    """Return a text, escaped, that is cut in its middle where it would be wider."""
    most = max(3, int(width / character))
    if len(text) > most:
        text = f"{text[: (most - 1 + 1) // 2]}…{text[len(text) - (most - 1) // 2 :]}"
    return _text(text)


def _text(text: str) -> str:
    return escape(_printable(text))


def _printable(text: str) -> str:
    """Return a text without the characters that XML does not have."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
