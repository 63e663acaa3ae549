"""Exact products of integers that lie as planes of bits: AND, carry-save adders, and a count of bits at the end.

Letters: C = A B^T; A has M rows and B has N rows of K integers; i and j are planes of A and of B. With two's complement
planes,

    C[m, n] = sum over i, j of w_i w_j popcount(A_i[m] & B_j[n]),    w_i = 2^i, but -2^i for the sign plane.

A counter of bits for each of 64 positions is kept in *bit-sliced* form: vector `c_s` holds bit s of every counter. A
full adder takes two more words of weight 2^s and gives one of weight 2^(s + 1); it is two instructions where the
processor has three-input logic (AVX-512), five elsewhere. So words of all pairs of planes go into one counter, each
into the level of its weight i + j, and bits are counted only when a run of words ends: three instructions for 64
products of bits a lane, against ten for AND and a count of its own. What has a negative weight is complemented, which
adds the same constant (64 ones a word) every time; it is taken off at the end.

Source: Harley and Seal's counter; Mula, Kurz, Lemire, "Faster Population Counts Using AVX2 Instructions", 2018.

Packed rows, for either factor: (G, W, P, V) words of 64 bits: G groups of V rows side by side, one row a lane; W words
of a row; P planes. Rows and bits that pad it are 0. Row m of A is read one word at a time and spread over the lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.loop import carry_loop, count_loop, lanes_below, share
from tazza.codegen.rows import element
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES
from tazza.runtime.native_code import processor
from tazza.tensor import DataType

WORD_BITS = 64
BLOCK = Fields("threads M N W", addresses="A B C")
RUNS = (16, 256)
"""Words that a counter takes before its bits are counted: one of these."""
UNROLLED_INPUTS = 128
"""Words that go into a counter in one turn of the loop, roughly."""
MOST_UNROLLED = 16
AVX512_WORDS = 8
TERNARY = "llvm.x86.avx512.pternlog.q.512"
"""Logic of three inputs, which LLVM does not find by itself in the form of a majority."""
ODD, MAJORITY = 0x96, 0xE8


def lanes() -> int:
    """Return V: how many words a vector has."""
    return processor().vector_bytes * 8 // WORD_BITS


@dataclass(frozen=True, slots=True)
class ProductForm:
    """What tells two kernels apart: planes of either factor, whether the last is a sign, words of a run, result."""

    planes_a: int
    planes_b: int
    signed_a: bool
    signed_b: bool
    run: int
    wide: bool
    """Whether C is int64 rather than int32."""

    def negative(self, i: int, j: int) -> bool:
        """Whether the pair has a negative weight."""
        return (self.signed_a and i == self.planes_a - 1) != (self.signed_b and j == self.planes_b - 1)

    @property
    def levels(self) -> int:
        """Bits of a counter: enough for ones in all words of a run."""
        return (self.run * ((1 << self.planes_a) - 1) * ((1 << self.planes_b) - 1)).bit_length()

    @property
    def unrolled(self) -> int:
        """Words of a turn."""
        return max(1, min(MOST_UNROLLED, UNROLLED_INPUTS // (self.planes_a * self.planes_b)))

    @property
    def constant(self) -> int:
        """What complemented pairs add to a lane for every word."""
        pairs = ((i, j) for i in range(self.planes_a) for j in range(self.planes_b))
        return sum(WORD_BITS << (i + j) for i, j in pairs if self.negative(i, j))


def product_kernel(form: ProductForm) -> int:
    """Return the address of the kernel."""
    return SOURCES.compiled(f"bit planes {form} of {lanes()} lanes", lambda lines: _Product(lines, form).write())


class _Product:
    """Writes one kernel."""

    def __init__(self, lines: Lines, form: ProductForm) -> None:
        self.lines = lines
        self.form = form
        self.count = lanes()
        self.v = Vector(lines, self.count, DataType.INT64)
        self.type = self.v.type
        if self.count == AVX512_WORDS:
            lines.declare(f"{self.type} @{TERNARY}({self.type}, {self.type}, {self.type}, i32 immarg)")
        at = BLOCK.read(lines)
        self.rows, self.columns, self.words = at.M, at.N, at.W
        self.a, self.b, self.c = at.A, at.B, at.C

    def write(self) -> None:
        """Go over the tiles of this thread, each one row of A by one group of B; the groups are the outer loop.

        Where there are more groups than threads, a thread takes groups; else it takes rows of A.
        """
        lines, count = self.lines, self.count
        groups = lines.let(f"udiv i64 {lines.let(f'add i64 {self.columns}, {count - 1}')}, {count}")
        many = lines.let(f"icmp sge i64 {groups}, %many")
        borders = [
            lines.let(f"select i1 {chosen}, i64 {mine}, i64 {all_of_them}")
            for shared, total, chosen in (
                (share(lines, groups), groups, many),
                (share(lines, self.rows), self.rows, lines.let(f"xor i1 {many}, true")),
            )
            for mine, all_of_them in zip(shared, ("0", total), strict=True)
        ]
        first_group, last_group, first_row, last_row = borders

        def group(g: str) -> None:
            count_loop(lines, first_row, last_row, lambda row: self.tile(row, g))

        count_loop(lines, first_group, last_group, group)

    def tile(self, row: str, group: str) -> None:
        """Compute V elements of C: those of a row of A and the rows of a group of B."""
        lines, form = self.lines, self.form
        a = self._row_of_a(row)
        size = lines.let(f"mul i64 {self.words}, {form.planes_b * self.count}")
        b = element(lines, self.b, lines.let(f"mul i64 {group}, {size}"), "i64")
        runs = lines.let(f"udiv i64 {lines.let(f'add i64 {self.words}, {form.run - 1}')}, {form.run}")
        constant = lines.let(f"mul i64 {self.words}, {-form.constant}")
        (total,) = carry_loop(
            self.v, "0", runs, [self.v.full(constant)], lambda n, so_far: [self._run(n, a, b, so_far[0])]
        )
        self._store(row, group, total)

    def _row_of_a(self, row: str) -> str:
        lines = self.lines
        group = lines.let(f"udiv i64 {row}, {self.count}")
        lane = lines.let(f"urem i64 {row}, {self.count}")
        size = lines.let(f"mul i64 {self.words}, {self.form.planes_a * self.count}")
        start = lines.let(f"add i64 {lines.let(f'mul i64 {group}, {size}')}, {lane}")
        return element(lines, self.a, start, "i64")

    def _run(self, n: str, a: str, b: str, total: str) -> str:
        """Add what words n * run ... give to the total."""
        lines, form = self.lines, self.form
        first = lines.let(f"mul i64 {n}, {form.run}")
        end = lines.let(f"add i64 {first}, {form.run}")
        last = lines.least(end, self.words)
        length = lines.let(f"sub i64 {last}, {first}")
        turns = lines.let(f"udiv i64 {length}, {form.unrolled}")
        middle = lines.let(f"add i64 {first}, {lines.let(f'mul i64 {turns}, {form.unrolled}')}")

        def several(turn: str, counter: Sequence[str]) -> list[str]:
            start = lines.let(f"add i64 {first}, {lines.let(f'mul i64 {turn}, {form.unrolled}')}")
            words = [start, *(lines.let(f"add i64 {start}, {k}") for k in range(1, form.unrolled))]
            return self._add(counter, words, a, b)

        counter = ["zeroinitializer"] * form.levels
        counter = carry_loop(self.v, "0", turns, counter, several)
        if form.unrolled > 1:
            counter = carry_loop(self.v, middle, last, counter, lambda word, sliced: self._add(sliced, [word], a, b))
        for level, one in enumerate(counter):
            ones = lines.intrinsic(self.type, "ctpop", one)
            total = self._two("add", total, self._two("shl", ones, f"splat (i64 {level})") if level else ones)
        return total

    def _add(self, counter: Sequence[str], words: list[str], a: str, b: str) -> list[str]:
        """Return the counter after some words of all pairs of planes.

        A level keeps one word until it gets a second one; so few values are alive at a time.
        """
        sums, waiting = list(counter), dict[int, str]()

        def put(level: int, x: str) -> None:
            # Beyond the last level a run has nothing to carry.
            while level < len(sums):
                other = waiting.pop(level, None)
                if other is None:
                    waiting[level] = x
                    return
                x = self._full_add(sums, level, other, x)
                level += 1

        for word in words:
            for level, product in self._products(word, a, b):
                put(level, product)
        for level in range(len(sums)):
            if level in waiting:
                put(level + 1, self._half_add(sums, level, waiting.pop(level)))
        return sums

    def _products(self, word: str, a: str, b: str) -> Iterator[tuple[int, str]]:
        """Yield (level, bits) for each pair of planes."""
        form, lines = self.form, self.lines
        left = [self.v.load_one(self._word(a, word, i, form.planes_a)) for i in range(form.planes_a)]
        right = [
            lines.let(f"load {self.type}, ptr {self._word(b, word, j, form.planes_b)}, align 64")
            for j in range(form.planes_b)
        ]
        for i, x in enumerate(left):
            for j, y in enumerate(right):
                both = self._two("and", x, y)
                yield i + j, self._two("xor", both, "splat (i64 -1)") if form.negative(i, j) else both

    def _word(self, start: str, word: str, plane: int, planes: int) -> str:
        lines = self.lines
        at = lines.let(f"mul i64 {word}, {planes * self.count}")
        return element(lines, start, lines.let(f"add i64 {at}, {plane * self.count}"), "i64")

    def _full_add(self, sums: list[str], level: int, x: str, y: str) -> str:
        """Take x and y into a level; returns the carry."""
        c = sums[level]
        if self.count == AVX512_WORDS:
            sums[level] = self._three(ODD, x, y, c)
            return self._three(MAJORITY, x, y, c)
        different = self._two("xor", x, y)
        sums[level] = self._two("xor", different, c)
        # Where x and y differ c decides, else they do: one instruction less than the usual form.
        return self._two("xor", x, self._two("and", different, self._two("xor", x, c)))

    def _half_add(self, sums: list[str], level: int, x: str) -> str:
        c = sums[level]
        sums[level] = self._two("xor", c, x)
        return self._two("and", c, x)

    def _store(self, row: str, group: str, total: str) -> None:
        lines, stored = self.lines, Vector(self.lines, self.count, DataType.INT64 if self.form.wide else DataType.INT32)
        column = lines.let(f"mul i64 {group}, {self.count}")
        mask = lanes_below(self.v, lines.let(f"sub i64 {self.columns}, {column}"))
        place = lines.let(f"add i64 {lines.let(f'mul i64 {row}, {self.columns}')}, {column}")
        stored.store(self.v.converted(total, stored.dtype), self.c, place, mask)

    def _three(self, table: int, x: str, y: str, z: str) -> str:
        """Any logic of three inputs: bit 4x + 2y + z of `table`."""
        operands = f"{self.type} {x}, {self.type} {y}, {self.type} {z}, i32 {table}"
        return self.lines.let(f"call {self.type} @{TERNARY}({operands})")

    def _two(self, name: str, x: str, y: str) -> str:
        return self.lines.let(f"{name} {self.type} {x}, {y}")
