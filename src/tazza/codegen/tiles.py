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

from tazza.codegen.emit import Lines, Vector

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

    def begin(self, shape: str) -> None:
        """Set up all registers, from the address of SHAPE."""
        self._do("ldtilecfg", f"ptr {shape}")

    def end(self) -> None:
        """Give them up: what a thread keeps in them is saved whenever it stops."""
        self._do("tilerelease")

    def zero(self, tile: int) -> None:
        """Let a register be 0."""
        self._do("tilezero", f"i8 {tile}")

    def load(self, tile: int, address: str, step_bytes: int = ROW_BYTES) -> None:
        """Read a register from rows that lie so far apart."""
        self._do("tileloadd64", f"i8 {tile}", f"ptr {address}", f"i64 {step_bytes}")
        self._keep_apart(BEHIND_LOAD)

    def store(self, tile: int, address: str, step_bytes: int) -> None:
        """Write a register to rows that lie so far apart."""
        self._do("tilestored64", f"i8 {tile}", f"ptr {address}", f"i64 {step_bytes}")

    def multiply(self, sums: int, a: int, b: int) -> None:
        """Add the product of two registers of bfloat16 to one of float32."""
        self._do("tdpbf16ps", f"i8 {sums}", f"i8 {a}", f"i8 {b}")
        self._keep_apart(BEHIND_PRODUCT)

    def _keep_apart(self, count: int) -> None:
        self.lines.do(f'call void asm sideeffect "{NOTHING * count}", ""()')

    def _do(self, name: str, *operands: str) -> None:
        kinds = ", ".join(one.split()[0] for one in operands)
        self.lines.declare(f"void @llvm.x86.{name}({kinds})")
        self.lines.do(f"call void @llvm.x86.{name}({', '.join(operands)})")


def pieces(v: Vector, x: str) -> list[str]:
    """Return float32 numbers as three pieces: integers whose upper halves are the bfloat16, the others are anything.

    Each is the nearest to what is left, so that products of pieces that do not count have either sign. The largest
    numbers would become infinite, and are cut off instead.
    """
    large = v.compare("uge", v.intrinsic("fabs", x), v.constant(LARGE))
    half = v.lines.let(f"select {v.mask} {large}, {v.integer} zeroinitializer, {v.integer} {v.whole(HALF)}")
    first = v.int_op("and", v.int_op("add", v.bits_of(x), half), v.whole(UPPER))
    infinite = v.compare("oeq", v.intrinsic("fabs", x), v.constant(math.inf))
    rest = v.select(infinite, v.constant(0.0), v.sub(x, v.of_bits(first)))
    second = v.int_op("and", v.int_op("add", v.bits_of(rest), v.whole(HALF)), v.whole(UPPER))
    return [first, second, v.bits_of(v.sub(rest, v.of_bits(second)))]


def paired(v: Vector, first: str, second: str) -> str:
    """Return words of two bfloat16: the upper halves of one, and in front of them those of the other."""
    return v.int_op("or", v.int_op("lshr", first, v.whole(16)), v.int_op("and", second, v.whole(UPPER)))


def halves(v: Vector, words: str) -> tuple[str, str]:
    """Return the two float32 of words that `paired` made of bfloat16."""
    return v.of_bits(v.int_op("shl", words, v.whole(16))), v.of_bits(v.int_op("and", words, v.whole(UPPER)))


def transposed(v: Vector, rows: Sequence[str]) -> list[str]:
    """Return the columns of as many rows as there are lanes: blocks of 1, 2, 4 ... lanes change places."""
    found, size = list(rows), 1
    while size < v.count:
        for low in (i for i in range(v.count) if not i & size):
            both = found[low], found[low + size]
            for place, start in ((low, 0), (low + size, size)):
                order = [lane + start if not lane & size else v.count + lane + start - size for lane in range(v.count)]
                found[place] = v.lines.shuffle(v.type, order, *both)
        size *= 2
    return found


def is_special(v: Vector, x: str) -> str:
    """Return the mask of what is infinite or NaN."""
    exponent = v.int_op("and", v.bits_of(x), v.whole(EXPONENT))
    return v.lines.let(f"icmp eq {v.integer} {exponent}, {v.whole(EXPONENT)}")
