"""Rows in few bits as vectors of floats: x = code * scale + bias.

A row of D numbers is D codes of `room` bits each, the first in the lowest bits of its byte; scale and bias stand behind
them, or beside the table in an array of their own. A vector of codes is loaded as so many bytes as it has; of short
codes each lane gets the 32 bits in which its own is.
"""

from __future__ import annotations

from tazza.codegen.emit import Lines, Vector
from tazza.codegen.loop import KINDS
from tazza.codegen.rows import element
from tazza.data_class import dataclass
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

    def decoded(self, v: Vector, row: Row, n: str, vectors: int, mask: str | None) -> list[str]:
        """Return so many vectors of a row, from element n on; D is a multiple of `in_byte`."""
        lines = v.lines
        whole = lines.let(f"udiv i64 {row.width}, {self.in_byte}")
        start = _bytes_at(v, row.table, lines.let(f"mul i64 {self.row_bytes(lines, row.width)}, {row.number}"))
        pair = _bytes_at(v, start, whole)
        if self.beside:
            pair = element(lines, row.pairs, lines.let(f"mul i64 {row.number}, 2"))
        scale, bias = (
            v.load_one(element(lines, pair, which, KINDS[self.scalars]), align=1, dtype=self.scalars) for which in "01"
        )
        first = lines.let(f"udiv i64 {n}, {self.in_byte}")
        found: list[str] = []
        for q in range(vectors):
            at = lines.let(f"add i64 {first}, {q * v.count // self.in_byte}")
            codes = self._codes(v, _bytes_at(v, start, at), mask)
            found.append(v.fma(codes, scale, bias))
        return found

    def _codes(self, v: Vector, at: str, mask: str | None) -> str:
        """Return a vector of codes, as floats."""
        lines, count = v.lines, v.count // self.in_byte
        stored = f"<{count} x i8>"
        # Lanes of one byte go together.
        own = None if mask is None else lines.shuffle(v.mask, range(0, v.count, self.in_byte), mask)
        packed = lines.load_lanes(stored, at, 1, own)
        return lines.let(f"sitofp {v.integer} {self._apart(v, packed, count)} to {v.type}")  # small: one instruction

    def _apart(self, v: Vector, packed: str, count: int) -> str:
        """Return so many bytes as a whole number for each code: its 32 bits, shifted until it comes first."""
        lines, room = v.lines, self.room
        if self.in_byte == 1:
            return lines.let(f"zext <{count} x i8> {packed} to {v.integer}")
        words, together = max(1, count // 4), 32 // room
        whole = lines.let(f"bitcast <{count} x i8> {packed} to i{8 * count}")
        if count < 4:
            whole = lines.let(f"zext i{8 * count} {whole} to i32")
        kind = f"<{words} x i32>"
        each = lines.let(f"bitcast i{max(8 * count, 32)} {whole} to {kind}")
        shifts = ", ".join(f"i32 {n % together * room}" for n in range(v.count))
        spread = lines.shuffle(kind, (n // together for n in range(v.count)), each)
        first = lines.let(f"lshr {v.integer} {spread}, <{shifts}>")
        return v.int_op("and", first, v.whole(2**room - 1))


@dataclass(frozen=True, slots=True)
class Row:
    """Which row of which table: addresses of the table and of scales and biases, the number, D."""

    table: str
    pairs: str
    number: str
    width: str


def _bytes_at(v: Vector, pointer: str, offset: str) -> str:
    return element(v.lines, pointer, offset, "i8")
