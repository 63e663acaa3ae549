"""Vectors of every element type: how they lie in registers and in memory, and what becomes of one type in another.

In registers float32, float16 and bfloat16 are float32 lanes, float64 is its own, integers have their width, and bool is
a mask. All vectors of a kernel have one number of lanes, so float64 beside float32 takes two registers. Half-precision
values are rounded where they are cast or stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from tazza.codegen.term import Lines, Number, Term, literal
from tazza.tensor import DataType

KINDS = {
    DataType.FLOAT: "float",
    DataType.DOUBLE: "double",
    DataType.FLOAT16: "half",
    DataType.BFLOAT16: "i16",
    DataType.BOOL: "i8",
}
"""Element types that vectors of floats load and store, and what LLVM calls them in memory."""
MEMORY = KINDS | {
    DataType.INT8: "i8",
    DataType.UINT8: "i8",
    DataType.INT16: "i16",
    DataType.UINT16: "i16",
    DataType.INT32: "i32",
    DataType.INT64: "i64",
}
"""All element types, and what LLVM calls them in memory."""
UNSIGNED = frozenset({DataType.BOOL, DataType.UINT8, DataType.UINT16})
HALVES = frozenset({DataType.FLOAT16, DataType.BFLOAT16})


class Vector:
    """Vectors of `count` lanes of an element type: what IR calls them, and how they come from memory and go there.

    Attributes:
        bits: width of a lane in registers.
        scalar, type: a lane in registers, and all of them.
        stored: all of them in memory.
        integer: as many integers, as wide as a lane.
        mask: as many truths.
        unsigned: whether integers of the type have no sign.
    """

    def __init__(self, lines: Lines, count: int, dtype: DataType = DataType.FLOAT) -> None:
        """Write into `lines`."""
        self.lines = lines
        self.count = count
        self.dtype = dtype
        self.unsigned = dtype in UNSIGNED
        self.bits = 1 if dtype is DataType.BOOL else max(8 * dtype.itemsize, 32 if dtype.is_float else 0)
        self.scalar = ("float" if self.bits == 32 else "double") if dtype.is_float else f"i{self.bits}"
        self.type = f"<{count} x {self.scalar}>"
        self.stored = f"<{count} x {MEMORY[dtype]}>"
        self.integer = f"<{count} x i{self.bits}>"
        self.mask = f"<{count} x i1>"

    def constant(self, number: float) -> Term:
        """Return a vector of one number."""
        return self.lines.number(number, self.type)

    @property
    def all_set(self) -> Term:
        """A mask of all lanes."""
        return self.lines.number(True, self.mask)

    def listed(self, numbers: Iterable[float]) -> Term:
        """Return a vector of these numbers."""
        lanes = (f"{self.scalar} {literal(self.scalar, one)}" for one in numbers)
        return Term(self.lines, self.type, f"<{', '.join(lanes)}>")

    def full(self, value: Number) -> Term:
        """Return a vector of one number, in the type of its lanes: integers are cut, floats rounded."""
        return value.to(self.scalar).splat(self.count) if isinstance(value, Term) else self.constant(value)

    def counted(self, first: Number, step: Number) -> Term:
        """Return first, first + step, first + 2 step ... of integers, cut from two int64."""
        begin, apart = self.full(first), self.full(step)
        return begin + self.listed(range(self.count)) * apart

    # -- memory --------------------------------------------------------------------------------------------------------

    def load(
        self,
        pointer: Term,
        i: Number,
        mask: Term | None,
        default: Number = 0,
        *,
        dtype: DataType | None = None,
        ahead_bytes: int = 0,
    ) -> Term:
        """Return elements i, i + 1 ... of an array; lanes outside of `mask` are `default`.

        Args:
            pointer: the array's address.
            i: int64.
            mask: which lanes are there; None for all.
            default: a vector, or the number of all lanes.
            dtype: what floats are in memory, if that is another type.
            ahead_bytes: what lies so far behind whole vectors is asked for.
        """
        dtype = self.dtype if dtype is None else dtype
        stored = f"<{self.count} x {MEMORY[dtype]}>"
        at = pointer.of(MEMORY[dtype]).at(i)
        if mask is None and ahead_bytes > 0:
            at.prefetch(ahead_bytes)
        passes = stored == self.type or (not isinstance(default, Term) and default == 0)
        wide = self.widened(dtype, at.load_lanes(stored, dtype.itemsize, mask, default if passes else 0))
        return wide if mask is None or passes else mask.choose(wide, default)

    def load_one(self, pointer: Term, *, dtype: DataType | None = None, align: int | None = None) -> Term:
        """Return a vector that is full of the element at `pointer`, a multiple of `align`: of its size by default."""
        dtype = self.dtype if dtype is None else dtype
        one = pointer.of(MEMORY[dtype]).load(dtype.itemsize if align is None else align)
        return self.widened(dtype, one.splat(self.count))

    def gather(self, pointer: Term, i: Number, step_bytes: Number, mask: Term | None) -> Term:
        """Return elements i, i + 1 ... that lie `step_bytes` apart."""
        places, chosen = self._places(pointer, i, step_bytes), self.all_set if mask is None else mask
        return self.widened(self.dtype, places.gather_lanes(self.stored, self.dtype.itemsize, chosen))

    def store(
        self,
        value: Term,
        pointer: Term,
        i: Number,
        mask: Term | None,
        *,
        dtype: DataType | None = None,
        streaming: bool = False,
    ) -> None:
        """Write elements i, i + 1 ..., as another type with `dtype`.

        With `streaming` whole vectors pass by the caches, and are aligned.
        """
        kind = self.dtype if dtype is None else dtype
        value = self.narrowed(kind, value)
        at = pointer.of(MEMORY[kind]).at(i)
        streams = streaming and mask is None
        align = self.count * kind.itemsize if streams else kind.itemsize
        at.store_lanes(value, align, mask, ", !nontemporal !2" if streams else "")

    def scatter(self, value: Term, pointer: Term, i: Number, step_bytes: Number, mask: Term | None) -> None:
        """Write elements i, i + 1 ... that lie `step_bytes` apart."""
        places, chosen = self._places(pointer, i, step_bytes), self.all_set if mask is None else mask
        places.scatter_lanes(self.narrowed(self.dtype, value), self.dtype.itemsize, chosen)

    def _places(self, pointer: Term, i: Number, step_bytes: Number) -> Term:
        whole = Vector(self.lines, self.count, DataType.INT64)
        first, step = whole.full(i), whole.full(step_bytes)
        return pointer.of("i8").at((first + whole.listed(range(self.count))) * step)

    # -- element types -------------------------------------------------------------------------------------------------

    def widened(self, dtype: DataType, value: Term) -> Term:
        """Return what was loaded as it is in registers: as floats, or, of the vector's own type, integers and masks."""
        if value.type == self.type:
            return value
        if self.dtype is DataType.BOOL:
            return value.differs(0)
        if dtype is DataType.BFLOAT16:  # the upper half of a float32
            return (value.to_unsigned("i32") << 16).as_floats().to(self.scalar)
        return value.to_unsigned(self.scalar) if dtype is DataType.BOOL else value.to(self.scalar)

    def narrowed(self, dtype: DataType, value: Term) -> Term:
        """Return what is in registers as it is stored: floats rounded to the nearest; the reverse of `widened`."""
        stored = MEMORY[dtype]
        if value.scalar == stored:
            return value
        if dtype is DataType.BOOL:
            return (value if self.dtype is DataType.BOOL else value.differs(0)).to_unsigned(stored)
        if dtype is DataType.BFLOAT16 and self.bits == 64:  # by way of float32, as NumPy does
            return Vector(self.lines, self.count).narrowed(dtype, value.to("float"))
        if dtype is DataType.BFLOAT16:  # round to nearest, ties to even; NaN keeps its upper half and a set bit
            bits = value.as_bits()
            odd = bits.shifted_down(16) & 1
            rounded, quiet = bits + 0x7FFF + odd, bits | 0x400000
            return value.is_nan().choose(quiet, rounded).shifted_down(16).to(stored)
        return value.to(stored)

    def converted(self, value: Term, target: DataType, *, rounded: bool = False) -> Term:
        """Return a value of this type in another; `rounded` first to what the type can hold."""
        if rounded and self.dtype in HALVES:
            value = self._rounded(value)
        other = Vector(self.lines, self.count, target)
        if target is self.dtype:
            return value
        if target is DataType.BOOL:
            return value.differs(0)
        if not target.is_float:
            return self._to_integer(value, other)
        value = value.to_unsigned(other.scalar) if self.unsigned else value.to(other.scalar)
        return other._rounded(value) if target in HALVES else value

    def _to_integer(self, value: Term, other: Vector) -> Term:
        if self.dtype.is_float:  # what does not fit is any number, but one and the same: as in NumPy
            raw = value.to("i64" if other.bits == 64 else "i32")
            return self.lines.let(raw.type, f"freeze {raw.typed}").to(other.scalar)
        return value.to_unsigned(other.scalar) if self.unsigned else value.to(other.scalar)

    def _rounded(self, value: Term) -> Term:
        return self.widened(self.dtype, self.narrowed(self.dtype, value))
