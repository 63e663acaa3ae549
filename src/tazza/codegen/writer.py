"""Writing kernels of more than one sweep: the words of a block by name, whole numbers, and steps through memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tazza.codegen.fields import Fields
from tazza.codegen.loop import carry_loop, lanes_of
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.tensor import DataType

FLOAT = DataType.FLOAT
LINE = 16
"""Floats in a line of the cache."""


class Writer:
    """Writes a kernel whose block has these words, and behind them perhaps more: the `tail`."""

    def __init__(self, lines: Lines, fields: Fields, first: int = 0) -> None:
        """Read the words, the first of which is that number of the block."""
        self.lines = lines
        self.v: Vector = lanes_of(lines)
        self.w = fields.loaded(lines, first)
        self.tail = self.w.tail()

    @property
    def panel(self) -> int:
        """Output channels of a panel."""
        return 2 * self.v.count

    def wait(self) -> None:
        """Let all threads come here."""
        self.lines.call_for_effect("GOMP_barrier")

    # -- memory --------------------------------------------------------------------------------------------------------

    def put(self, value: Term, pointer: Term, index: Number) -> None:
        """Write a whole vector."""
        self.v.store(value, pointer, index, None)

    def pair(self, pointer: Term) -> list[Term]:
        """Return the two vectors of a panel."""
        return [self.v.load(pointer, half * self.v.count, None) for half in range(2)]

    def add_outer(self, sums: Sequence[Term], numbers: Iterable[Term], vectors: Sequence[Term]) -> list[Term]:
        """Return a register tile of sums with products: each of the numbers, by its address, times each vector."""
        found: list[Term] = []
        for r, at in enumerate(numbers):
            one = self.v.load_one(at)
            found += [one.fma(vector, sums[len(vectors) * r + k]) for k, vector in enumerate(vectors)]
        return found

    def add_to(
        self,
        places: tuple[Term, int],
        count: Term,
        body: Callable[[Term, Sequence[Term]], Sequence[Term]],
        *,
        begin: bool,
    ) -> None:
        """Add what a loop of so many turns gives to vectors side by side, from an address on, or begin with it."""
        v, (pointer, several) = self.v, places
        indices = [i * v.count for i in range(several)]
        before = [v.constant(0.0) if begin else v.load(pointer, i, None) for i in indices]
        for i, value in zip(indices, carry_loop(0, count, before, body), strict=True):
            self.put(value, pointer, i)

    def over_threads(self, own: Term, apart: Term, at: Number) -> Term:
        """Return the sum over all threads of a vector, `at` so many floats behind where each has its own.

        They lie `apart` floats from each other; `own` is that of this thread.
        """

        def thread(who: Term, total: Sequence[Term]) -> Sequence[Term]:
            there = (who - self.lines.who) * apart + at
            return [total[0] + self.v.load(own, there, None)]

        return carry_loop(0, self.lines.many, [self.v.constant(0.0)], thread)[0]


def places(v: Vector, start: Term, step: Number) -> Term:
    """Return the addresses of every `step`th float from `start` on, one for each lane."""
    whole = Vector(v.lines, v.count, DataType.INT64)
    return start.at(whole.full(step) * whole.listed(range(v.count)))


def gather(v: Vector, start: Term, step: Number, mask: Term) -> Term:
    """Return every `step`th float from `start` on; lanes outside of the mask are 0."""
    return places(v, start, step).gather_lanes(v.type, 4, mask)


def scatter(v: Vector, value: Term, start: Term, step: Number, mask: Term) -> None:
    """Write lanes to every `step`th float from `start` on."""
    places(v, start, step).scatter_lanes(value, 4, mask)
