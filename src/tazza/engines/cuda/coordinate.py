"""Where an element lies in operands that do not all go on without a gap: its place along dimensions, and in each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import Word
from tazza.codegen.fields import Fields, Unnamed
from tazza.codegen.formula_plan import Axes
from tazza.codegen.term import Term
from tazza.data_class import dataclass
from tazza.engines.cuda.launch import SMALL, Brought, Held

HEAD = Fields("count")
"""How many elements there are; behind it stand extents, then the address and the steps of each operand."""


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
    words: list[Word | Held | Brought] = [*HEAD.words(count=math.prod(extents) if kept else size), *extents]
    for k, address in enumerate(addresses):
        words += [address, *(steps[k] for _, steps in kept)]
    return Lay(32 if size < SMALL else 64, len(kept)), words


def coordinates(i: Term, depth: int, bits: int) -> list[Term]:
    """Return the place of element i along each dimension, outermost first; extents are words from 1 on.

    `bits` count the elements.
    """
    if depth == 0:
        return []
    rest, found = i.to(f"i{bits}"), list[Term]()
    for axis in reversed(range(1, depth)):
        extent = Unnamed(i.lines, len(HEAD) + axis).take(1)[0].to(rest.type)
        found.append(rest % extent)
        rest //= extent
    return [one.to_unsigned("i64") for one in (rest, *reversed(found))]


def place_in(i: Term, numbers: Sequence[Term], word: int) -> tuple[Term, Term]:
    """Return the address of an operand, and the place of the element in it; its words begin at `word`."""
    words = Unnamed(i.lines, word)
    pointer = words.take(1, "ptr")[0]
    if not numbers:
        return pointer, i
    return pointer, sum((number * words.take(1)[0] for number in numbers), i.lines.number(0))
