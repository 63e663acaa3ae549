"""Draw what lies where in the arena of the walk's plan, and from which step to which, for docs/walk."""

from __future__ import annotations

import numpy as np

from tazza.graph.text import parse_net
from tazza.workspace import Workspace
from tools.draw_walk import CONV, FOLDER, SHAPES, Canvas

NAME = "arena"
STEP = 170.0
"""Width of a step."""
HEIGHT = 260.0
"""Of the whole arena."""
COLORS = ("#b5d8ef", "#bfe3b4", "#d9c3ea", "#f9d9a6")
SCRATCH, SCRATCH_COLOR = "scratchpad", "#dddddd"


def draw_arena() -> str:
    """Return the picture as SVG: steps to the right, bytes downwards."""
    workspace = Workspace()
    for name, shape in SHAPES.items():
        workspace.feed(name, np.ones(shape, np.float32))
    net = parse_net("net: walk", "type: plan", "in: X, W, b, V", "out: Z", CONV, "R = Relu(Y)", "Z = Conv(R, V)")
    net.op[2].arg.add(name="kernel", i=1)
    plan = workspace.create_net(net)
    plan.run()
    found = plan.explain()
    canvas = Canvas("The arena of a plan: what lies where, and from which step to which")
    left, top, scale = 70.0, 40.0, HEIGHT / found.arena_bytes
    told = f"{found.arena_bytes} bytes; {found.unshared_bytes} if nothing shared a place"
    canvas.text(left, 16.0, told)
    for number in range(len(found.rows)):
        canvas.text(left + STEP * number + 4, 32.0, f"step {number}")
    canvas.box(left, top, (STEP * len(found.rows), HEIGHT), "#ffffff")
    for color, place in zip(_colors(len(found.placements)), found.placements, strict=True):
        x, y = left + STEP * place.first, top + scale * place.offset
        size = (STEP * (place.last - place.first + 1), scale * place.nbytes)
        canvas.box(x, y, size, color if place.name else SCRATCH_COLOR)
        canvas.text(x + 6, y + 14, f"{place.name if place.name else SCRATCH}: {place.nbytes} bytes")
    for offset in sorted({place.offset for place in found.placements}):
        canvas.text(4.0, top + scale * offset + 10, str(offset))
    return canvas.svg()


def _colors(count: int) -> list[str]:
    return [COLORS[k % len(COLORS)] for k in range(count)]


def main() -> None:
    """Draw it."""
    (FOLDER / f"{NAME}.svg").write_text(draw_arena(), encoding="utf-8")


if __name__ == "__main__":
    main()
