"""Rows in few bits as vectors of floats: x = code * scale + bias.

A row of D numbers is D codes of `room` bits each, the first in the lowest bits of its byte; scale and bias stand behind
them, or beside the table in an array of their own. A vector of codes is loaded as so many bytes as it has, whose halves
are laid side by side until each code is a byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from tazza.codegen.emit import Lanes, Lines
from tazza.codegen.loop import KINDS, load_one
from tazza.codegen.rows import element
from tazza.tensor import DataType


@dataclass(frozen=True, slots=True)
class Codes:
    """How a row is kept.

    Attributes:
        room: bits of a code: 8, 4 or 2.
        scalars: element type of scale and bias.
        beside: whether these lie in an array of their own, two for each row.
    """

    room: int
    scalars: DataType
    beside: bool = False

    @property
    def in_byte(self) -> int:
        """Codes in a byte."""
        return 8 // self.room

    def row_bytes(self, lines: Lines, width: str) -> str:
        """Return how many bytes of the table a row of `width` numbers takes."""
        behind = 0 if self.beside else 2 * self.scalars.itemsize
        return lines.let(f"add i64 {lines.let(f'udiv i64 {width}, {self.in_byte}')}, {behind}")

    def decoded(self, v: Lanes, row: Row, n: str, vectors: int, mask: str | None) -> list[str]:
        """Return so many vectors of a row, from element n on; D is a multiple of `in_byte`."""
        lines = v.lines
        whole = lines.let(f"udiv i64 {row.width}, {self.in_byte}")
        start = _bytes_at(v, row.table, lines.let(f"mul i64 {self.row_bytes(lines, row.width)}, {row.number}"))
        pair = _bytes_at(v, start, whole)
        if self.beside:
            pair = element(lines, row.pairs, lines.let(f"mul i64 {row.number}, 2"))
        scale, bias = (
            load_one(v, self.scalars, element(lines, pair, which, KINDS[self.scalars]), align=1) for which in "01"
        )
        first = lines.let(f"udiv i64 {n}, {self.in_byte}")
        found: list[str] = []
        for q in range(vectors):
            at = lines.let(f"add i64 {first}, {q * v.count // self.in_byte}")
            codes = self._codes(v, _bytes_at(v, start, at), mask)
            found.append(v.fma(codes, scale, bias))
        return found

    def _codes(self, v: Lanes, at: str, mask: str | None) -> str:
        """Return a vector of codes, as floats."""
        lines, count = v.lines, v.count // self.in_byte
        stored = f"<{count} x i8>"
        if mask is None:
            packed = lines.let(f"load {stored}, ptr {at}, align 1")
        else:
            firsts = ", ".join(f"i32 {k * self.in_byte}" for k in range(count))  # lanes of one byte go together
            own = lines.let(f"shufflevector {v.mask} {mask}, {v.mask} poison, <{count} x i32> <{firsts}>")
            lines.declare(f"{stored} @llvm.masked.load.v{count}i8.p0(ptr, i32, <{count} x i1>, {stored})")
            operands = f"ptr {at}, i32 1, <{count} x i1> {own}, {stored} zeroinitializer"
            packed = lines.let(f"call {stored} @llvm.masked.load.v{count}i8.p0({operands})")
        wide = lines.let(f"zext <{v.count} x i8> {self._apart(v, packed, count)} to {v.integer}")
        return lines.let(f"sitofp {v.integer} {wide} to {v.type}")  # codes are small: signed is one instruction

    def _apart(self, v: Lanes, packed: str, count: int) -> str:
        """Return bytes of a code each: halves of all bytes, twice for 2 bits, the lower one before the upper one."""
        lines, room = v.lines, 8
        while room > self.room:
            room //= 2
            kind = f"<{count} x i8>"
            low = lines.let(f"and {kind} {packed}, splat (i8 {2**room - 1})")
            high = lines.let(f"lshr {kind} {packed}, splat (i8 {room})")
            order = ", ".join(f"i32 {half * count + n}" for n in range(count) for half in (0, 1))
            packed = lines.let(f"shufflevector {kind} {low}, {kind} {high}, <{2 * count} x i32> <{order}>")
            count *= 2
        return packed


@dataclass(frozen=True, slots=True)
class Row:
    """Which row of which table: addresses of the table and of scales and biases, the number, D."""

    table: str
    pairs: str
    number: str
    width: str


def _bytes_at(v: Lanes, pointer: str, offset: str) -> str:
    return element(v.lines, pointer, offset, "i8")
