"""Writing kernels of more than one sweep: the words of a block by name, whole numbers, and steps through memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.loop import carry_loop, lanes_of
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
        self.w = fields.load(lines, first)
        self.tail = self.w.tail()

    @property
    def panel(self) -> int:
        """Output channels of a panel."""
        return 2 * self.v.count

    def wait(self) -> None:
        """Let all threads come here."""
        self.lines.declare("void @GOMP_barrier()")
        self.lines.do("call void @GOMP_barrier()")

    # -- whole numbers -------------------------------------------------------------------------------------------------

    def add(self, a: str, b: str | int) -> str:
        """A + b."""
        return self.lines.let(f"add i64 {a}, {b}")

    def sub(self, a: str, b: str | int) -> str:
        """A - b."""
        return self.lines.let(f"sub i64 {a}, {b}")

    def mul(self, a: str, b: str | int) -> str:
        """A * b."""
        return self.lines.let(f"mul i64 {a}, {b}")

    def div(self, a: str, b: str | int) -> str:
        """A / b without the rest, of numbers that are not negative."""
        return self.lines.let(f"udiv i64 {a}, {b}")

    def rem(self, a: str, b: str | int) -> str:
        """The rest of a / b."""
        return self.lines.let(f"urem i64 {a}, {b}")

    def pieces(self, a: str, b: str | int) -> str:
        """How many pieces of b cover a."""
        return self.div(self.sub(self.add(a, b), 1), b)

    def least(self, a: str, b: str) -> str:
        """The smaller one."""
        return self.lines.least(a, b)

    def most(self, a: str, b: str) -> str:
        """The larger one."""
        return self.lines.most(a, b)

    # -- memory --------------------------------------------------------------------------------------------------------

    def put(self, value: str, pointer: str, index: str) -> None:
        """Write a whole vector."""
        self.v.store(value, pointer, index, None)

    def pair(self, pointer: str) -> list[str]:
        """Return the two vectors of a panel."""
        return [self.v.load(pointer, str(half * self.v.count), None) for half in range(2)]

    def add_outer(self, sums: Sequence[str], numbers: Iterable[str], vectors: Sequence[str]) -> list[str]:
        """Return a register tile of sums with products: each of the numbers, by its address, times each vector."""
        found: list[str] = []
        for r, at in enumerate(numbers):
            one = self.v.load_one(at)
            found += [self.v.fma(one, vector, sums[len(vectors) * r + k]) for k, vector in enumerate(vectors)]
        return found

    def add_to(
        self, places: tuple[str, int], count: str, body: Callable[[str, Sequence[str]], Sequence[str]], *, begin: bool
    ) -> None:
        """Add what a loop of so many turns gives to vectors side by side, from an address on, or begin with it."""
        v, (pointer, several) = self.v, places
        indices = [str(i * v.count) for i in range(several)]
        before = [v.constant(0.0) if begin else v.load(pointer, i, None) for i in indices]
        for i, value in zip(indices, carry_loop(v, "0", count, before, body), strict=True):
            self.put(value, pointer, i)

    def over_threads(self, own: str, apart: str, at: str) -> str:
        """Return the sum over all threads of a vector, `at` so many floats behind where each has its own.

        They lie `apart` floats from each other; `own` is that of this thread.
        """

        def thread(who: str, total: Sequence[str]) -> Sequence[str]:
            there = self.add(self.mul(self.sub(who, "%who"), apart), at)
            return [self.v.add(total[0], self.v.load(own, there, None))]

        return carry_loop(self.v, "0", "%many", [self.v.constant(0.0)], thread)[0]


def places(v: Vector, start: str, step: str) -> str:
    """Return the addresses of every `step`th float from `start` on, one for each lane."""
    lines, kind = v.lines, f"<{v.count} x i64>"
    numbers = f"<{', '.join(f'i64 {lane}' for lane in range(v.count))}>"
    return lines.let(
        f"getelementptr float, ptr {start}, {kind} {lines.let(f'mul {kind} {lines.splat(kind, step)}, {numbers}')}"
    )


def gather(v: Vector, start: str, step: str, mask: str) -> str:
    """Return every `step`th float from `start` on; lanes outside of the mask are 0."""
    return v.lines.gather_lanes(v.type, places(v, start, step), 4, mask)


def scatter(v: Vector, value: str, start: str, step: str, mask: str) -> None:
    """Write lanes to every `step`th float from `start` on."""
    v.lines.scatter_lanes(v.type, value, places(v, start, step), 4, mask)
