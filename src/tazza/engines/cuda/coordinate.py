"""Where an element lies in operands that do not all go on without a gap: its place along dimensions, and in each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import Word
from tazza.codegen.emit import Lines
from tazza.codegen.formula_plan import Axes
from tazza.data_class import dataclass
from tazza.engines.cuda.launch import SMALL, Brought, Held


@dataclass(frozen=True, slots=True)
class Lay:
    """How many bits count the elements, and how many dimensions there are; none where no operand has a gap."""

    bits: int
    depth: int

    def first(self, k: int) -> int:
        """Return which word of the block is the address of operand k, behind which its steps are."""
        return (1 + k) * (1 + self.depth)


def laid(axes: Axes, size: int, addresses: Sequence[Word | Held | Brought]) -> tuple[Lay, list[Word | Held | Brought]]:
    """Return how elements lie, and the words: how many there are, extents, of each operand its address and steps.

    >>> laid([(2, (3, 1)), (3, (1, 2))], 6, [0, 0])
    (Lay(bits=32, depth=2), [6, 2, 3, 0, 3, 1, 0, 1, 2])
    """
    flat = len(axes) == 1 and all(step == 1 for step in axes[0][1])
    kept = [] if flat else axes
    extents = [extent for extent, _ in kept]
    words: list[Word | Held | Brought] = [math.prod(extents) if kept else size, *extents]
    for k, address in enumerate(addresses):
        words += [address, *(steps[k] for _, steps in kept)]
    return Lay(32 if size < SMALL else 64, len(kept)), words


def coordinates(lines: Lines, i: str, depth: int, bits: int) -> list[str]:
    """Return the place of element i along each dimension, outermost first; extents are words from 1 on.

    `bits` count the elements.
    """
    if depth == 0:
        return []
    kind = f"i{bits}"
    rest = i if bits == 64 else lines.let(f"trunc i64 {i} to i32")
    found: list[str] = []
    for axis in reversed(range(1, depth)):
        extent = lines.load_word("%block", 1 + axis)
        if bits == 32:
            extent = lines.let(f"trunc i64 {extent} to i32")
        found.append(lines.let(f"urem {kind} {rest}, {extent}"))
        rest = lines.let(f"udiv {kind} {rest}, {extent}")
    found.append(rest)
    return [one if bits == 64 else lines.let(f"zext i32 {one} to i64") for one in reversed(found)]


def place_in(lines: Lines, i: str, numbers: Sequence[str], word: int) -> tuple[str, str]:
    """Return the address of an operand, and the place of the element in it; its words begin at `word`."""
    pointer = lines.load_pointer("%block", word)
    if not numbers:
        return pointer, i
    total = "0"
    for k, number in enumerate(numbers):
        moved = lines.let(f"mul i64 {number}, {lines.load_word('%block', word + 1 + k)}")
        total = lines.let(f"add i64 {total}, {moved}")
    return pointer, total
