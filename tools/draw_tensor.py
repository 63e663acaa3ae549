"""Draw the pictures of docs/tensor from live objects: `python -m tools.draw_tensor`.

Where an element lies is read off a tensor whose memory was filled with 0, 1, 2 ...; blocks are those that a buddy
allocator shows; the graph of an expression is the one that is evaluated, and its bytes are those that `explain` tells.
The picture of layouts needs the engine oneDNN, and is left as it is without it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tazza.array as ta
from tazza.operator import why_unavailable
from tools.draw_walk import CHARACTER, LINE, MARGIN, Canvas

FOLDER = Path(__file__).parent.parent / "docs" / "tensor"
COLORS = ("#f6b1a8", "#fbd28f", "#f3ea9c", "#b9e3ab", "#abd4f4", "#d4c0ef")
"""Of channels, and of who holds a block."""
FREE, PADDING, SOFT, DARK = "#ffffff", "#e4e4e4", "#888888", "#333333"


class Sheet(Canvas):
    """A canvas with what these pictures have beside lines and boxes."""

    def label(self, x: float, y: float, text: str, **style: object) -> None:
        """Write a line whose middle is x."""
        self.text(x - CHARACTER * len(text) / 2, y, text, **style)

    def title(self, y: float, bold: str, rest: str) -> None:
        """Write the headline of a part: a name, and what is to be said of it."""
        self.text(MARGIN, y, bold, font_size=12, font_weight="bold")
        self.text(MARGIN + 7.3 * len(bold) + 12, y, rest, fill="#555555")

    def cell(self, x: float, y: float, side: float, fill: str, text: object = "") -> None:
        """Draw a square with a short text in it."""
        self.box(x, y, (side, side), fill, "#ffffff" if fill != FREE else SOFT)
        self.text(x + side / 2, y + side / 2 + 3.5, str(text), fill=DARK, text_anchor="middle")


# -- a layout: where each element lies ---------------------------------------------------------------------------------

IMAGE = ta.Dim((1, 6, 2, 3))
"""N C H W."""
BLOCK = 4
SIDE, GAP, LEFT = 17, 4, MARGIN + 52


def positions(layout: ta.Layout) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], int]:
    """Return where each element of an image with this layout lies, and how many places there are, padding included."""
    x = ta.Array(IMAGE, layout=layout)
    count = layout.span_bytes(IMAGE, 4) // 4
    x.reserve()
    assert x.storage.allocation is not None, "reserved"
    x.storage.allocation.buffer[: 4 * count].view(np.float32)[...] = np.arange(count)
    x.mark_written()
    return x.plain()[0].astype(np.int64), count


def blocked() -> ta.Layout:
    """Return oneDNN's layout with blocks of channels inside."""
    from tazza.engines.onednn.descriptor import Descriptor
    from tazza.engines.onednn.library import check, constant, ffi, lib

    made = ffi.new("dnnl_memory_desc_t *")
    tag = constant(f"dnnl_aBcd{BLOCK}b")
    check(lib.dnnl_memory_desc_create_with_tag(made, len(IMAGE), tuple(IMAGE), constant("dnnl_f32"), tag), "a layout")
    descriptor = Descriptor(made[0])
    return ta.Opaque("onednn", descriptor, descriptor.nbytes)


def draw_layouts() -> str:
    """Return the picture: three layouts of one image, each as the image with places, and as memory with elements."""
    sheet = Sheet("One image in three layouts: where each element lies in memory")
    last = ta.channels_last(IMAGE)
    block = blocked()
    assert isinstance(block, ta.Opaque)
    tag = str(block.descriptor).split()[-1]
    rows = {
        ("row-major", f"strides {IMAGE.strides()}: channel after channel"): ta.ROW_MAJOR,
        ("channels-last", f"strides {last.strides}: all channels of a pixel side by side"): last,
        (f"oneDNN, {tag}", f"{BLOCK} channels of a pixel side by side, then the next pixel; grey is padding"): block,
    }
    _, C, H, W = IMAGE
    sheet.text(MARGIN, 20, f"float32{list(IMAGE)}, N C H W. The color is the channel.")
    sheet.text(
        MARGIN, 20 + LINE, f"In the image, the number is the place in memory; in memory, it is the pixel h * {W} + w."
    )
    y = 66.0
    for (name, told), layout in rows.items():
        where, count = positions(layout)
        sheet.title(y, name, told)
        y += 10
        sheet.text(MARGIN, y + SIDE + 4, "image", fill="#555555")
        for c, h, w in ta.Dim((C, H, W)).indices():
            sheet.cell(LEFT + c * (W * SIDE + 14) + w * SIDE, y + h * SIDE, SIDE, COLORS[c], where[c, h, w])
        y += H * SIDE + 10
        sheet.text(MARGIN, y + 12, "memory", fill="#555555")
        _draw_memory(sheet, y, where, count)
        y += SIDE + 40
    return sheet.svg()


def _draw_memory(sheet: Sheet, y: float, where: np.ndarray[tuple[int, ...], np.dtype[np.int64]], count: int) -> None:
    """Draw the places in order; there is a gap where channel and pixel change at once."""
    dims = ta.Dim(where.shape)
    _, _, W = dims.of_rank(3)
    owners = {int(where[index]): index for index in dims.indices()}
    x, last = float(LEFT), owners[0]
    for place in range(count):
        owner = owners.get(place)
        if owner is not None:
            c, h, w = owner
            x += GAP if place and c != last[0] and (h, w) != last[1:] else 0
            last = owner
        fill, text = (PADDING, "") if owner is None else (COLORS[owner[0]], owner[1] * W + owner[2])
        sheet.cell(x, y, SIDE - 1, fill, text)
        x += SIDE - 1


# -- a buddy allocator -------------------------------------------------------------------------------------------------

CHUNK_BYTES = 1024
SCALE, ROW = 0.72, 46


@dataclass(frozen=True, slots=True)
class Step:
    """What was done, and how the chunk looked after it: blocks, and bytes asked for by holder."""

    done: str
    blocks: list[ta.Block]
    asked: Mapping[str, int]


def buddy_steps() -> list[Step]:
    """Allocate three spans, and give them back in another order."""
    buddies = ta.BuddyAllocator(ta.allocator_of(ta.CPUPlace()), chunk_bytes=CHUNK_BYTES)
    buddies.allocate(1).close()  # brings the chunk
    steps: list[Step] = []
    held: dict[str, ta.Allocation] = {}

    def note(done: str) -> None:
        steps.append(Step(done, buddies.blocks(), dict(buddies.largest_holders())))

    note("a chunk, free")
    for holder, nbytes in {"x": 100, "y": 200, "z": 60}.items():
        held[holder] = buddies.allocate(nbytes, holder)
        note(f"allocate {nbytes} for {holder}")
    for holder in "xyz":
        held.pop(holder).close()
        note(f"give back {holder}")
    return steps


def draw_buddies() -> str:
    """Return the picture: the blocks of one chunk, a bar for each step; new blocks have a dark border."""
    steps = buddy_steps()
    sheet = Sheet("A buddy allocator splits and merges blocks")
    left, y = 160.0, 44.0
    start = steps[0].blocks[0].address
    for at in range(0, CHUNK_BYTES + 1, CHUNK_BYTES // 8):
        sheet.label(left + at * SCALE, 20, str(at), fill="#555555")
        sheet.line(f"M{left + at * SCALE:.0f} 26V{y + ROW * len(steps) - 18:.0f}", color="#dddddd")
    sheet.text(MARGIN, 20, "byte of the chunk", fill="#555555")
    before: set[tuple[int, int]] = set()
    for step in steps:
        sheet.text(MARGIN, y + 19, step.done)
        for block in sorted(step.blocks, key=lambda block: (block.address, block.nbytes) not in before):
            is_new = bool(before) and (block.address, block.nbytes) not in before
            _draw_block(sheet, (left + (block.address - start) * SCALE, y), block, step.asked, is_new=is_new)
        before = {(block.address, block.nbytes) for block in step.blocks}
        y += ROW
    sheet.text(left, y, "White is free. The pale part of a block was not asked for.", fill="#555555")
    sheet.text(left, y + LINE, "A dark border: this step made the block, by a split or by a merge.", fill="#555555")
    return sheet.svg()


def _draw_block(
    sheet: Sheet, at: tuple[float, float], block: ta.Block, asked: Mapping[str, int], *, is_new: bool
) -> None:
    (x, y), width, height = at, block.nbytes * SCALE, ROW - 18.0
    sheet.box(x, y, (width, height), FREE, "none")
    if block.holder is not None:
        color = COLORS["xyz".index(block.holder) * 2]
        sheet.box(x, y, (asked[block.holder] * SCALE, height), color, "none")
        sheet.box(x, y, (width, height), f"{color}55", "none")
    sheet.box(x, y, (width, height), "none", DARK if is_new else "#bbbbbb")
    text = str(block.nbytes) if block.holder is None else f"{block.holder} {asked[block.holder]}"
    sheet.label(x + width / 2, y + height / 2 + 4, text, fill=SOFT if block.holder is None else DARK)


# -- a fused expression ------------------------------------------------------------------------------------------------

ELEMENTS = 1_000_000
NODE, STEP_Y = 15.0, 60.0
WIDTHS = {"array": 166.0, "number": 64.0}


def told_of(expression: ta.Lazy) -> tuple[str, int, int]:
    """Return what `explain` tells: what the kernel computes, the bytes that it reads, and those that it writes."""
    text = expression.explain()
    found = re.search(r"reads ([\d,]+) bytes, writes ([\d,]+) bytes", text)
    assert found is not None, text
    read, written = (int(digits.replace(",", "")) for digits in found.groups())
    computed = next(line for line in text.splitlines() if "->" in line)
    return computed.strip(), read, written


def nodes_of(root: ta.Lazy) -> list[ta.Lazy]:
    """Return the nodes of an expression, operands before what uses them, from left to right."""
    return [node for operand in root.operands for node in nodes_of(operand)] + [root]


def alone(node: ta.Lazy) -> ta.Lazy:
    """Return the expression of one function, whose operands are arrays that somebody else has computed."""
    operands = [one.value if one.value is not None else ta.zeros(one.shape) for one in node.operands]
    return ta.apply(node.function, *operands)


def draw_fused() -> str:
    """Return the picture: the graph of an expression inside of its kernel, and the bytes with and without fusion."""
    x, y, c = (ta.zeros(ELEMENTS) for _ in "xyc")
    names = {id(x): "x", id(y): "y", id(c): "c"}
    root = 2.5 * ta.lazy(x) + 1.5 * ta.lazy(y) - c
    computed, _, written = told_of(root)
    sheet = Sheet("A fused expression: one kernel, one pass over memory")
    nodes, at = nodes_of(root), _placed(root)
    (middle, bottom), right = at[id(root)], max(place[0] for place in at.values()) + 70
    sheet.title(20, "2.5 * x + 1.5 * y - c", f"over {ELEMENTS:,} float32")
    sheet.box(MARGIN, 84, (right - MARGIN, bottom - 84 + 34), "#fdf6ec", "#e0a95c")
    sheet.text(MARGIN + 8, bottom + 6, "one kernel, one pass:", fill="#a06a1a", font_weight="bold")
    sheet.text(MARGIN + 8, bottom + 22, computed, fill="#a06a1a")
    for node in nodes:
        for operand in node.operands:
            _draw_flow(sheet, at[id(operand)], at[id(node)], NODE if operand.function else 9.0)
    for node in nodes:
        _draw_node(sheet, at[id(node)], node, names.get(id(node.value)))
    _draw_flow(sheet, (middle, bottom), (middle, bottom + 78), NODE)
    _draw_array(sheet, (middle, bottom + 72), 24, f"the result: {written:,} bytes written")
    _draw_traffic(sheet, (MARGIN, bottom + 130), root, nodes)
    return sheet.svg()


def _placed(root: ta.Lazy) -> dict[int, tuple[float, float]]:
    """Return where the nodes go: arrays on top, functions below their operands, between them."""
    places: dict[int, tuple[float, float]] = {}
    left = float(MARGIN)
    for node in nodes_of(root):
        if node.operands:
            above = [places[id(one)] for one in node.operands]
            places[id(node)] = sum(x for x, _ in above) / len(above), max(y for _, y in above) + STEP_Y
        else:
            kind = "array" if node.size > 1 else "number"
            places[id(node)] = left + WIDTHS[kind] / 2, 62.0 if kind == "array" else 112.0
            left += WIDTHS[kind]
    return places


def _draw_node(sheet: Sheet, at: tuple[float, float], node: ta.Lazy, name: str | None) -> None:
    x, y = at
    if name is not None:
        _draw_array(sheet, at, -13, f"{name}: {node.shape.numel * node.dtype.itemsize:,} bytes read")
    elif node.function:
        sheet.box(x - NODE * 1.5, y - NODE, (NODE * 3, NODE * 2), "#fbd28f", "#a06a1a")
        sheet.label(x, y + 4, node.function, font_weight="bold")
    else:
        sheet.label(x, y + 4, str(np.asarray(node.evaluate())))


def _draw_array(sheet: Sheet, at: tuple[float, float], below: float, told: str) -> None:
    """Draw an array as a row of cells, and write what is done to it `below`."""
    x, y = at
    for k in range(6):
        sheet.cell(x - 42 + 14 * k, y - 7, 14, COLORS[4])
    sheet.label(x, y + below, told, fill="#2a6496")


def _draw_flow(sheet: Sheet, start: tuple[float, float], end: tuple[float, float], below: float) -> None:
    """Draw an arrow from the lower edge of one thing to the upper edge of another."""
    sheet.line(f"M{start[0]:.0f} {start[1] + below:.0f}L{end[0]:.0f} {end[1] - NODE - 1:.0f}", "flow")


def _draw_traffic(sheet: Sheet, at: tuple[float, float], root: ta.Lazy, nodes: Iterable[ta.Lazy]) -> None:
    """Draw bars of the bytes that are moved: by one kernel, and by one kernel for each function."""
    single = [told_of(alone(node))[1:] for node in nodes if node.function]
    rows: Sequence[tuple[str, tuple[int, int]]] = (
        ("fused", told_of(root)[1:]),
        (f"{len(single)} kernels", (sum(read for read, _ in single), sum(written for _, written in single))),
    )
    x, y = at
    scale = 300 / max(read + written for _, (read, written) in rows)
    for name, (read, written) in rows:
        sheet.text(x, y + 14, name)
        sheet.box(x + 70, y, (read * scale, 20), COLORS[4], "white")
        sheet.box(x + 70 + read * scale, y, (written * scale, 20), COLORS[0], "white")
        told = f"{read / 1e6:.0f} MB read, {written / 1e6:.0f} MB written"
        sheet.text(x + 78 + (read + written) * scale, y + 14, told)
        y += 28


PICTURES: dict[str, tuple[Callable[[], str], str]] = {
    "layouts": (draw_layouts, "onednn"),
    "buddies": (draw_buddies, ""),
    "fused": (draw_fused, ""),
}
"""Name of the file -> what draws it, and the engine that it needs."""


def why_not(name: str) -> str | None:
    """Return why a picture cannot be drawn here, or None."""
    engine = PICTURES[name][1]
    return why_unavailable("Conv", "cpu", engine) if engine else None


def main() -> None:
    """Draw all pictures."""
    for name, (draw, engine) in PICTURES.items():
        reason = why_not(name)
        if reason is None:
            (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
        else:
            print(f"{name} is left as it is: {engine} is not there: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
