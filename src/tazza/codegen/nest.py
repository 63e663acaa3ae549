"""The loops around a row: dimensions that were merged, and the block that says where operands lie in them.

Letters: of the dimensions that are left after merging, the innermost is a row; the others count rows. Behind the words
of the block that have names stand the extents of the dimensions that count rows, then for each operand its address and
its steps (in bytes) along these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from tazza.codegen.block import Word
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, share_one
from tazza.codegen.term import Lines, Term

HEAD = Fields("threads rows inner by_rows")
"""Elements of a row are `inner`; `by_rows`: whether threads divide the rows among them."""
UNIT = 64
"""Borders between threads within a row lie at multiples of this, so that they do not share cache lines."""

Axis = tuple[int, tuple[int, ...]]
"""An extent, and the step of each operand along it."""


def merged(axes: Sequence[Axis]) -> list[Axis]:
    """Return the axes without those of extent 1, joined where all operands go on without a gap.

    >>> merged([(2, (12, 0)), (3, (4, 0)), (1, (7, 7)), (5, (4, 4))])
    [(6, (4, 0)), (5, (4, 4))]
    """
    found: list[Axis] = []
    for extent, steps in axes:
        if extent == 1:
            continue
        if found and all(big == small * extent for big, small in zip(found[-1][1], steps, strict=True)):
            found[-1] = found[-1][0] * extent, steps
        else:
            found.append((extent, steps))
    return found


def row_pointers(r: Term, extents: Sequence[Term], bases: Sequence[Sequence[Term]]) -> list[Term]:
    """Return where row r of each operand begins; a base is an address and the steps along the counting dimensions."""
    indices: list[Term] = []
    for extent in reversed(extents[1:]):
        indices.insert(0, r % extent)
        r = r // extent
    if extents:
        indices.insert(0, r)
    pointers: list[Term] = []
    for address, *steps in bases:
        for index, step in zip(indices, steps, strict=True):
            address = address + index * step
        pointers.append(address.as_pointer())
    return pointers


def nest_words(
    threads: int,
    extents: tuple[Sequence[int], int],
    operands: Iterable[tuple[Word, Sequence[int]]],
    *,
    by_rows: bool | None = None,
) -> tuple[Word, ...]:
    """Return the words for extents that count rows and that of a row, and the address and steps of each operand.

    If nothing is said, threads divide rows where there are several for each of them.
    """
    counting, inner = extents
    rows = math.prod(counting)
    by_rows = rows >= 4 * threads if by_rows is None else by_rows
    head = HEAD.words(threads=threads, rows=rows, inner=inner, by_rows=int(by_rows))
    return (*head, *counting, *(word for address, steps in operands for word in (address, *steps)))


class Nest:
    """What the block says of some operands in dimensions of which `depth` count rows; the `tail` is behind that."""

    def __init__(self, lines: Lines, depth: int, operands: int) -> None:
        """Read it."""
        self.lines, self.at = lines, HEAD.loaded(lines)
        self.tail = self.at.tail()
        self.extents = self.tail.take(depth)
        self.bases = [self.tail.take(1 + depth) for _ in range(operands)]

    def each_row(self, row: Callable[[list[Term], Term, Term], None]) -> None:
        """Run `row(pointers, begin, end)` for the rows, or the parts of rows, of this thread."""
        lines, at = self.lines, self.at
        (first, last), (begin, end) = share_one(lines, at.by_rows, at.rows, at.inner, UNIT)
        count_loop(lines, first, last, lambda r: row(row_pointers(r, self.extents, self.bases), begin, end))
