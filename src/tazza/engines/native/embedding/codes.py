"""Rows in few bits as vectors of floats: x = code * scale + bias.

A row of D numbers is D codes of `room` bits each, the first in the lowest bits of its byte; scale and bias stand behind
them, or beside the table in an array of their own. A vector of codes is loaded as so many bytes as it has; of short
codes each lane gets the 32 bits in which its own is.
"""

from __future__ import annotations

from tazza.codegen.term import Term
from tazza.codegen.vector import KINDS, Vector
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

    def row_bytes(self, width: Term) -> Term:
        """Return how many bytes of the table a row of `width` numbers takes."""
        behind = 0 if self.beside else 2 * self.scalars.itemsize
        return width // self.in_byte + behind

    def decoded(self, v: Vector, row: Row, n: Term, vectors: int, mask: Term | None) -> list[Term]:
        """Return so many vectors of a row, from element n on; D is a multiple of `in_byte`."""
        whole = row.width // self.in_byte
        start = row.table.of("i8").at(self.row_bytes(row.width) * row.number)
        pair = start.at(whole)
        if self.beside:
            pair = row.pairs.at(row.number * 2)
        pair = pair.of(KINDS[self.scalars])
        scale, bias = (v.load_one(pair.at(which), align=1, dtype=self.scalars) for which in range(2))
        first = n // self.in_byte
        places = (start.at(first + q * v.count // self.in_byte) for q in range(vectors))
        return [self._codes(v, at, mask).fma(scale, bias) for at in places]

    def _codes(self, v: Vector, at: Term, mask: Term | None) -> Term:
        """Return a vector of codes, as floats."""
        # Lanes of one byte go together.
        own = None if mask is None else mask.shuffle(range(0, v.count, self.in_byte))
        packed = at.load_lanes(f"<{v.count // self.in_byte} x i8>", 1, own)
        return self._apart(v, packed).to("float")  # small: one instruction

    def _apart(self, v: Vector, packed: Term) -> Term:
        """Return so many bytes as a whole number for each code: its 32 bits, shifted until it comes first."""
        if self.in_byte == 1:
            return packed.to_unsigned("i32")
        together, bits = 32 // self.room, 8 * packed.count
        whole = packed.bitcast(f"i{bits}").to_unsigned(f"i{max(bits, 32)}")
        words = whole.bitcast(f"<{max(bits // 32, 1)} x i32>").shuffle(n // together for n in range(v.count))
        shifts = Vector(v.lines, v.count, DataType.INT32).listed(n % together * self.room for n in range(v.count))
        return words.shifted_down(shifts) & (2**self.room - 1)


@dataclass(frozen=True, slots=True)
class Row:
    """Which row of which table: addresses of the table and of scales and biases that lie beside it, the number, D."""

    table: Term
    pairs: Term
    number: Term
    width: Term
