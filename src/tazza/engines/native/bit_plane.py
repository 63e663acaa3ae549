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

from tazza.codegen.fields import Fields
from tazza.codegen.loop import carry_loop, count_loop, lanes_below, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES
from tazza.runtime.native_code import processor
from tazza.tensor import DataType

WORD_BITS = 64
BLOCK = Fields("threads M N W", addresses="A:i64 B:i64 C")
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
        self.lines, self.form, self.count = lines, form, lanes()
        self.v = Vector(lines, self.count, DataType.INT64)
        self.type = self.v.type
        at = BLOCK.lazily(lines)
        self.rows, self.columns, self.words = at.M, at.N, at.W
        self.a, self.b, self.c = at.A, at.B, at.C

    def write(self) -> None:
        """Go over the tiles of this thread, each one row of A by one group of B; the groups are the outer loop.

        Where there are more groups than threads, a thread takes groups; else it takes rows of A.
        """
        lines, count = self.lines, self.count
        groups = self.columns.pieces(count)
        many = groups >= lines.many
        (first_group, last_group), (first_row, last_row), few = share(lines, groups), share(lines, self.rows), ~many
        some_groups = many.choose(first_group, 0), many.choose(last_group, groups)
        some_rows = few.choose(first_row, 0), few.choose(last_row, self.rows)
        count_loop(lines, *some_groups, lambda g: count_loop(lines, *some_rows, lambda row: self.tile(row, g)))

    def tile(self, row: Term, group: Term) -> None:
        """Compute V elements of C: those of a row of A and the rows of a group of B."""
        form = self.form
        a = self._row_of_a(row)
        b = self.b.at(group * (self.words * (form.planes_b * self.count)))
        runs = self.words.pieces(form.run)
        constant = self.words * -form.constant
        (total,) = carry_loop(0, runs, [self.v.full(constant)], lambda n, so_far: [self._run(n, a, b, so_far[0])])
        self._store(row, group, total)

    def _row_of_a(self, row: Term) -> Term:
        group, lane = row // self.count, row % self.count
        return self.a.at(group * (self.words * (self.form.planes_a * self.count)) + lane)

    def _run(self, n: Term, a: Term, b: Term, total: Term) -> Term:
        """Add what words n * run ... give to the total."""
        form = self.form
        first = n * form.run
        last = (first + form.run).at_most(self.words)
        turns = (last - first) // form.unrolled
        middle = first + turns * form.unrolled

        def several(turn: Term, counter: Sequence[Term]) -> list[Term]:
            start = first + turn * form.unrolled
            return self._add(counter, [start, *(start + k for k in range(1, form.unrolled))], a, b)

        counter = carry_loop(0, turns, [self.v.constant(0)] * form.levels, several)
        if form.unrolled > 1:
            counter = carry_loop(middle, last, counter, lambda word, sliced: self._add(sliced, [word], a, b))
        for level, one in enumerate(counter):
            ones = one.intrinsic("ctpop")
            total += ones << level if level else ones
        return total

    def _add(self, counter: Sequence[Term], words: list[Term], a: Term, b: Term) -> list[Term]:
        """Return the counter after some words of all pairs of planes.

        A level keeps one word until it gets a second one; so few values are alive at a time.
        """
        sums, waiting = list(counter), dict[int, Term]()

        def put(level: int, x: Term) -> None:
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

    def _products(self, word: Term, a: Term, b: Term) -> Iterator[tuple[int, Term]]:
        """Yield (level, bits) for each pair of planes."""
        form = self.form
        left = [self.v.load_one(self._word(a, word, i, form.planes_a)) for i in range(form.planes_a)]
        right = [self._word(b, word, j, form.planes_b).of(self.type).load(64) for j in range(form.planes_b)]
        for i, x in enumerate(left):
            for j, y in enumerate(right):
                both = x & y
                yield i + j, ~both if form.negative(i, j) else both

    def _word(self, start: Term, word: Term, plane: int, planes: int) -> Term:
        return start.at(word * (planes * self.count) + plane * self.count)

    def _full_add(self, sums: list[Term], level: int, x: Term, y: Term) -> Term:
        """Take x and y into a level; returns the carry."""
        c = sums[level]
        if self.count == AVX512_WORDS:
            sums[level] = self._three(ODD, x, y, c)
            return self._three(MAJORITY, x, y, c)
        different = x ^ y
        sums[level] = different ^ c
        # Where x and y differ c decides, else they do: one instruction less than the usual form.
        return x ^ (different & (x ^ c))

    def _half_add(self, sums: list[Term], level: int, x: Term) -> Term:
        c = sums[level]
        sums[level] = c ^ x
        return c & x

    def _store(self, row: Term, group: Term, total: Term) -> None:
        stored = Vector(self.lines, self.count, DataType.INT64 if self.form.wide else DataType.INT32)
        column = group * self.count
        mask = lanes_below(self.v, self.columns - column)
        place = row * self.columns + column
        stored.store(self.v.converted(total, stored.dtype), self.c, place, mask)

    def _three(self, table: int, x: Term, y: Term, z: Term) -> Term:
        """Any logic of three inputs: bit 4x + 2y + z of `table`."""
        return self.lines.call(self.type, TERNARY, x, y, z, self.lines.number(table, "i32"))
