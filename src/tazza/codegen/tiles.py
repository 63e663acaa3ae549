"""Tile registers of x86-64 (AMX), and float32 numbers in three pieces of bfloat16, which they multiply.

A tile has 16 rows of 64 bytes. A register of sums gets, of a tile of 16 x 32 numbers and one of 32 x 16,

    C[m][n] += sum over k of A[m][k] B[k][n]

where B lies in pairs of k: row k/2, then n, then k%2. In which order the k are counted is free, but one for both. The
sum of 32 products is rounded apart from C.

A float32 has 24 bits, a bfloat16 has 8 of them: x = x0 + x1 + x2, exactly, where nothing is denormal. Of the nine
products of pieces six count, the others are below the last bit of the product. Where x is not finite, some piece is
not, and no sum of products with these is; the sum of the pieces is x still.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector

ROWS, ROW_BYTES = 16, 64
TILE_BYTES = ROWS * ROW_BYTES
DEPTH = 32
"""Numbers of bfloat16 in a row."""
REGISTERS = 8
PIECES = 3
PRODUCTS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 2))
"""Pieces of A and B that are multiplied, in an order in which most of them are there already."""
SHAPE = bytes([1, *[0] * 15, *[ROW_BYTES, 0] * REGISTERS, *[0] * 16, *[ROWS] * REGISTERS, *[0] * 8])
"""What the registers are set up by: the palette, then bytes of a row and rows of each."""
UPPER, EXPONENT, HALF = -0x10000, 0x7F800000, 0x8000
"""Bits of a float32: those of a bfloat16, of its exponent, and half of the last one of a bfloat16."""
BEHIND_PRODUCT, BEHIND_LOAD, NOTHING = 16, 8, r"nop\0A"
"""So many instructions that do nothing stand behind each that multiplies or loads.

Where they cost nothing, a product takes 16 cycles. In other hours of a shared machine it takes twice that, and what
crowds behind it makes it three to four times (docs/operator_speed.md); these keep it apart. Measured on a Xeon of 2023,
for 32 rows: 10.5 us for a panel in such an hour without them, 6 with them; 2.5 either way in others.
"""
LARGE = 2.0**128 - 2.0**119
"""What a bfloat16 rounds to infinity."""


class Tiles:
    """Writes what is done with tile registers."""

    def __init__(self, lines: Lines) -> None:
        """Write into `lines`."""
        self.lines = lines

    def begin(self, shape: Term) -> None:
        """Set up all registers, from the address of SHAPE."""
        self._do("ldtilecfg", shape)

    def end(self) -> None:
        """Give them up: what a thread keeps in them is saved whenever it stops."""
        self._do("tilerelease")

    def zero(self, tile: int) -> None:
        """Let a register be 0."""
        self._do("tilezero", self._tile(tile))

    def load(self, tile: int, address: Term, step_bytes: int = ROW_BYTES) -> None:
        """Read a register from rows that lie so far apart."""
        self._do("tileloadd64", self._tile(tile), address, self.lines.number(step_bytes))
        self._keep_apart(BEHIND_LOAD)

    def store(self, tile: int, address: Term, step_bytes: int) -> None:
        """Write a register to rows that lie so far apart."""
        self._do("tilestored64", self._tile(tile), address, self.lines.number(step_bytes))

    def multiply(self, sums: int, a: int, b: int) -> None:
        """Add the product of two registers of bfloat16 to one of float32."""
        self._do("tdpbf16ps", *(self._tile(one) for one in (sums, a, b)))
        self._keep_apart(BEHIND_PRODUCT)

    def _keep_apart(self, count: int) -> None:
        self.lines.do(f'call void asm sideeffect "{NOTHING * count}", ""()')

    def _tile(self, number: int) -> Term:
        return self.lines.number(number, "i8")

    def _do(self, name: str, *operands: Term) -> None:
        self.lines.call_for_effect(f"llvm.x86.{name}", *operands)


def pieces(v: Vector, x: Term) -> list[Term]:
    """Return float32 numbers as three pieces: integers whose upper halves are the bfloat16, the others are anything.

    Each is the nearest to what is left, so that products of pieces that do not count have either sign. The largest
    numbers would become infinite, and are cut off instead.
    """
    half = abs(x).compare("uge", LARGE).choose(x.lines.number(0, v.integer), HALF)
    first = (x.as_bits() + half) & UPPER
    infinite = abs(x).equals(math.inf)
    rest = infinite.choose(0.0, x - first.as_floats())
    second = (rest.as_bits() + HALF) & UPPER
    return [first, second, (rest - second.as_floats()).as_bits()]


def paired(first: Term, second: Term) -> Term:
    """Return words of two bfloat16: the upper halves of one, and in front of them those of the other."""
    return first.shifted_down(16) | (second & UPPER)


def halves(words: Term) -> tuple[Term, Term]:
    """Return the two float32 of words that `paired` made of bfloat16."""
    return (words << 16).as_floats(), (words & UPPER).as_floats()


def transposed(v: Vector, rows: Sequence[Term]) -> list[Term]:
    """Return the columns of as many rows as there are lanes: blocks of 1, 2, 4 ... lanes change places."""
    found, size = list(rows), 1
    while size < v.count:
        for low in (i for i in range(v.count) if not i & size):
            both = found[low], found[low + size]
            for place, start in ((low, 0), (low + size, size)):
                order = [lane + start if not lane & size else v.count + lane + start - size for lane in range(v.count)]
                found[place] = both[0].shuffle(order, both[1])
        size *= 2
    return found


def is_special(x: Term) -> Term:
    """Return the mask of what is infinite or NaN."""
    return (x.as_bits() & EXPONENT).equals(EXPONENT)
