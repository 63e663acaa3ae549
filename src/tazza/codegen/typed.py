"""Vectors of every element type: memory access, casts, and the functions of the expression language on each.

Values in registers: float32, float16 and bfloat16 are float32 lanes, float64 is its own, integers have their width, and
bool is a mask. All vectors of a kernel have one number of lanes, so float64 beside float32 takes two registers.
Half-precision values are rounded where they are cast or stored. Integers wrap around; a division by 0 gives 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tazza.codegen.emit import KINDS, Lanes, Lines
from tazza.codegen.vector import UNARY, Emission
from tazza.data_class import dataclass
from tazza.tensor import DataType
from tazza.tensor.expression import Expression, Node
from tazza.tensor.function import CASTS, TRUTHS, signature
from tazza.tensor.promotion import BOOL, FLOATING, kind_of

MEMORY = KINDS | {
    DataType.INT8: "i8",
    DataType.UINT8: "i8",
    DataType.INT16: "i16",
    DataType.UINT16: "i16",
    DataType.INT32: "i32",
    DataType.INT64: "i64",
}
"""Element types, and what LLVM calls them in memory."""
UNSIGNED = frozenset({DataType.BOOL, DataType.UINT8, DataType.UINT16})
HALVES = frozenset({DataType.FLOAT16, DataType.BFLOAT16})


@dataclass(frozen=True, slots=True)
class Vector:
    """Vectors of `count` lanes of an element type; `type` is theirs in registers."""

    lines: Lines
    count: int
    dtype: DataType

    @property
    def lanes(self) -> Lanes:
        """Arithmetic on floating point of this width."""
        return Lanes(self.lines, self.count, 64 if self.dtype is DataType.DOUBLE else 32)

    @property
    def type(self) -> str:
        """The LLVM type in registers."""
        if self.dtype is DataType.BOOL:
            return f"<{self.count} x i1>"
        return self.lanes.type if self.dtype.is_float else self.stored

    @property
    def stored(self) -> str:
        """The LLVM type in memory."""
        return f"<{self.count} x {MEMORY[self.dtype]}>"

    @property
    def scalar(self) -> str:
        """The LLVM type of one lane in registers."""
        return self.type.split(" x ")[1][:-1]

    @property
    def unsigned(self) -> bool:
        """Whether integers of the type have no sign."""
        return self.dtype in UNSIGNED

    def constant(self, value: float) -> str:
        """Return a vector of one value."""
        return self.lanes.constant(value) if self.dtype.is_float else f"splat ({self.scalar} {int(value)})"

    def counted(self, first: str, step: str) -> str:
        """Return first, first + step, first + 2 step ... of integers, cut from two int64."""
        numbers = f"<{', '.join(f'{self.scalar} {lane}' for lane in range(self.count))}>"
        begin, apart = (self.full(one) for one in (first, step))
        return self.lines.let(f"add {self.type} {begin}, {self.lines.let(f'mul {self.type} {numbers}, {apart}')}")

    def full(self, value: str) -> str:
        """Return a vector of one integer, cut from an int64."""
        short = value if self.scalar == "i64" else self.lines.let(f"trunc i64 {value} to {self.scalar}")
        return self.lines.splat(self.type, short)

    # -- memory --------------------------------------------------------------------------------------------------------

    def load(self, pointer: str, i: str, mask: str | None, *, ahead_bytes: int = 0) -> str:
        """Return elements i, i + 1 ...; those outside of the mask are 0. What lies ahead is asked for."""
        at = self.lines.let(f"getelementptr {MEMORY[self.dtype]}, ptr {pointer}, i64 {i}")
        if mask is None and ahead_bytes > 0:
            self.lines.prefetch(at, ahead_bytes)
        return self._widened(self.lines.load_lanes(self.stored, at, self.dtype.itemsize, mask))

    def load_one(self, pointer: str) -> str:
        """Return a vector that is full of the element at `pointer`."""
        one = self.lines.let(f"load {MEMORY[self.dtype]}, ptr {pointer}, align {self.dtype.itemsize}")
        return self._widened(self.lines.splat(self.stored, one))

    def gather(self, pointer: str, i: str, step_bytes: str, mask: str | None) -> str:
        """Return elements i, i + 1 ... that lie `step_bytes` apart."""
        places, chosen = self._places(pointer, i, step_bytes), "splat (i1 true)" if mask is None else mask
        return self._widened(self.lines.gather_lanes(self.stored, places, self.dtype.itemsize, chosen))

    def store(self, value: str, pointer: str, i: str, mask: str | None, *, streaming: bool = False) -> None:
        """Write elements i, i + 1 ...; with `streaming` whole vectors pass by the caches, and are aligned."""
        at = self.lines.let(f"getelementptr {MEMORY[self.dtype]}, ptr {pointer}, i64 {i}")
        streams = streaming and mask is None
        align = self.count * self.dtype.itemsize if streams else self.dtype.itemsize
        hint = ", !nontemporal !2" if streams else ""
        self.lines.store_lanes(self.stored, self._narrowed(value), at, align, mask, hint)

    def scatter(self, value: str, pointer: str, i: str, step_bytes: str, mask: str | None) -> None:
        """Write elements i, i + 1 ... that lie `step_bytes` apart."""
        places, chosen = self._places(pointer, i, step_bytes), "splat (i1 true)" if mask is None else mask
        self.lines.scatter_lanes(self.stored, self._narrowed(value), places, self.dtype.itemsize, chosen)

    def _places(self, pointer: str, i: str, step_bytes: str) -> str:
        whole = f"<{self.count} x i64>"
        numbers = f"<{', '.join(f'i64 {lane}' for lane in range(self.count))}>"
        first, step = (self.lines.splat(whole, one) for one in (i, step_bytes))
        index = self.lines.let(f"add {whole} {first}, {numbers}")
        offset = self.lines.let(f"mul {whole} {index}, {step}")
        return self.lines.let(f"getelementptr i8, ptr {pointer}, {whole} {offset}")

    def _widened(self, value: str) -> str:
        if self.dtype is DataType.BOOL:
            return self.lines.let(f"icmp ne {self.stored} {value}, zeroinitializer")
        return self.lanes.widened(self.dtype, value) if self.dtype.is_float else value

    def _narrowed(self, value: str) -> str:
        if self.dtype is DataType.BOOL:
            return self.lines.let(f"zext {self.type} {value} to {self.stored}")
        return self.lanes.narrowed(self.dtype, value) if self.dtype.is_float else value

    # -- casts ---------------------------------------------------------------------------------------------------------

    def converted(self, value: str, target: DataType, *, rounded: bool = False) -> str:
        """Return a value of this type in another; `rounded` first to what the type can hold."""
        if rounded and self.dtype in HALVES:
            value = self._rounded(value)
        other = Vector(self.lines, self.count, target)
        if target is self.dtype:
            return value
        if target is DataType.BOOL:
            if self.dtype.is_float:
                return self.lanes.compare("une", value, self.constant(0.0))
            return self.lines.let(f"icmp ne {self.type} {value}, zeroinitializer")
        if not target.is_float:
            return self._to_integer(value, other)
        if self.type != other.type:
            change = "fpext" if self.lanes.bits < other.lanes.bits else "fptrunc"
            if not self.dtype.is_float:
                change = "uitofp" if self.unsigned else "sitofp"
            value = self.lines.let(f"{change} {self.type} {value} to {other.type}")
        return other._rounded(value) if target in HALVES else value

    def _to_integer(self, value: str, other: Vector) -> str:
        if self.dtype.is_float:  # what does not fit is any number, but one and the same: as in NumPy
            middle = f"<{self.count} x {'i64' if other.dtype is DataType.INT64 else 'i32'}>"
            raw = self.lines.let(f"fptosi {self.type} {value} to {middle}")
            fixed = self.lines.let(f"freeze {middle} {raw}")
            return fixed if middle == other.type else self.lines.let(f"trunc {middle} {fixed} to {other.type}")
        if self.type == other.type:
            return value
        size, wanted = 0 if self.dtype is DataType.BOOL else self.dtype.itemsize, other.dtype.itemsize
        change = "trunc" if size > wanted else "zext" if self.unsigned else "sext"
        return self.lines.let(f"{change} {self.type} {value} to {other.type}")

    def _rounded(self, value: str) -> str:
        return self.lanes.widened(self.dtype, self.lanes.narrowed(self.dtype, value))

    # -- lanes ---------------------------------------------------------------------------------------------------------

    def select(self, mask: str, yes: str, no: str) -> str:
        """Yes where the mask is set, else no."""
        return self.lines.let(f"select <{self.count} x i1> {mask}, {self.type} {yes}, {self.type} {no}")

    def folded(self, value: str, function: str) -> str:
        """Return all lanes joined by a function of two operands, one half with the other, as a vector of one lane."""

        def join(count: int, low: str, high: str) -> str:
            return joined(Vector(self.lines, count, self.dtype), function, low, high)

        return self.lines.halved(self.type, value, join)


def joined(vector: Vector, function: str, a: str, b: str) -> str:
    """Return a function of two vectors of one type."""
    values, types = {"a": a, "b": b}, {"a": vector.dtype, "b": vector.dtype}
    node = Node(function, None, (Node("name", "a"), Node("name", "b")))
    return TypedEmission(vector.lines, vector.count, values, types).write(Expression(node))


class TypedEmission(Emission):
    """Writes expressions over vectors of known types: truths are masks, integers are integers."""

    def __init__(self, lines: Lines, count: int, values: Mapping[str, str], types: Mapping[str, DataType]) -> None:
        """Take the vectors that the names stand for, and their types."""
        super().__init__(Lanes(lines, count, 32), values)
        self._lines = lines
        self._count = count
        self._names = types
        self._types: dict[Node, DataType] = {}

    def _node(self, node: Node) -> str:
        if node.head == "name":
            self._types[node] = self._names[str(node.value)]
            return self.values[str(node.value)]
        types = tuple(self._types[one] for one in node.arguments)
        self._types[node] = signature(node.head, types)[1]
        operands = [self._done[one] for one in node.arguments]
        vector = Vector(self._lines, self._count, types[-1])
        if node.head in CASTS:
            computed = node.arguments[0].head != "name"
            return vector.converted(operands[0], CASTS[node.head], rounded=computed)
        if node.head == "where":
            return vector.select(*operands)
        if not vector.dtype.is_float:
            return _INTEGER[node.head](vector, *operands)
        self.lanes = vector.lanes
        return self._truth(node, operands) if node.head in TRUTHS else self._float(node, operands)


def unsupported(name: str, operands: tuple[DataType, ...]) -> str | None:
    """Return why a function is not compiled for operands of these types, or None."""
    if name in CASTS or name == "where":
        return None
    kind = kind_of(operands[-1])
    if kind == FLOATING:
        bits = 64 if operands[-1] is DataType.DOUBLE else 32
        known = name in UNARY[bits] or name in TRUTHS or name in ("min", "max")
    else:
        known = name in (_MASKS if kind == BOOL else _INTEGER)
    return None if known else f"{name} of {operands[-1]} is not compiled"


# -- integers and masks ------------------------------------------------------------------------------------------------

Emit = Callable[..., str]
Binary = Callable[[Vector, str, str], str]


def _two(name: str) -> Binary:
    return lambda v, a, b: v.lines.let(f"{name} {v.type} {a}, {b}")


def _compare(predicate: str) -> Binary:
    def emit(v: Vector, a: str, b: str) -> str:
        sign = "" if predicate in ("eq", "ne") else "u" if v.unsigned else "s"
        return v.lines.let(f"icmp {sign}{predicate} {v.type} {a}, {b}")

    return emit


def _for_masks(mask: str, integer: Binary) -> Binary:
    """Use another instruction where the type is bool."""
    return lambda v, a, b: _two(mask)(v, a, b) if v.dtype is DataType.BOOL else integer(v, a, b)


def _extreme(predicate: str) -> Binary:
    return lambda v, a, b: v.select(_compare(predicate)(v, a, b), a, b)


def _negative(v: Vector, a: str) -> str:
    return v.lines.let(f"sub {v.type} zeroinitializer, {a}")


def _abs(v: Vector, a: str) -> str:
    return a if v.unsigned else v.select(_compare("lt")(v, a, v.constant(0)), _negative(v, a), a)


def _sign(v: Vector, a: str) -> str:
    above = v.lines.let(f"zext <{v.count} x i1> {_compare('gt')(v, a, v.constant(0))} to {v.type}")
    below = v.lines.let(f"zext <{v.count} x i1> {_compare('lt')(v, a, v.constant(0))} to {v.type}")
    return _two("sub")(v, above, below)


def _relu(v: Vector, a: str) -> str:
    return _extreme("gt")(v, a, v.constant(0))


def _same(v: Vector, a: str) -> str:
    return a


def _inverted(v: Vector, a: str) -> str:
    return _two("xor")(v, a, "splat (i1 true)" if v.dtype is DataType.BOOL else v.constant(-1))


def _divided(v: Vector, a: str, b: str) -> tuple[str, str]:
    """Return quotient and remainder, rounded towards minus infinity; 0 and 0 where b is 0."""
    zero, one = v.constant(0), v.constant(1)
    nothing = _compare("eq")(v, b, zero)
    bad = nothing
    if not v.unsigned:  # the lowest number divided by -1 overflows, which processors punish: it stays itself
        lowest = _compare("eq")(v, a, v.constant(-(2 ** (8 * v.dtype.itemsize - 1))))
        minus = v.lines.let(f"and <{v.count} x i1> {lowest}, {_compare('eq')(v, b, v.constant(-1))}")
        bad = v.lines.let(f"or <{v.count} x i1> {nothing}, {minus}")
    divisor = v.select(bad, one, b)
    quotient = _quotient(v, a, divisor)
    rest = _two("sub")(v, a, _two("mul")(v, quotient, divisor))
    if not v.unsigned:
        signs = _compare("lt")(v, _two("xor")(v, rest, divisor), zero)
        other = v.lines.let(f"and <{v.count} x i1> {signs}, {_compare('ne')(v, rest, zero)}")
        quotient = v.select(other, _two("sub")(v, quotient, one), quotient)
        rest = v.select(other, _two("add")(v, rest, divisor), rest)
    return v.select(nothing, zero, quotient), v.select(nothing, zero, rest)


def _quotient(v: Vector, a: str, b: str) -> str:
    """Return the quotient, cut off; float64 holds that of 32 bits exactly, and has vector division."""
    if v.dtype is DataType.INT64:
        return _two("sdiv")(v, a, b)
    wide = Vector(v.lines, v.count, DataType.DOUBLE)
    quotient = wide.lanes.div(v.converted(a, DataType.DOUBLE), v.converted(b, DataType.DOUBLE))
    return wide.converted(quotient, v.dtype)


def _floor_divide(v: Vector, a: str, b: str) -> str:
    return _divided(v, a, b)[0]


def _remainder(v: Vector, a: str, b: str) -> str:
    return _divided(v, a, b)[1]


def _square(v: Vector, a: str) -> str:
    return _two("mul")(v, a, a)


def _cube(v: Vector, a: str) -> str:
    return _two("mul")(v, _square(v, a), a)


def _shifted(name: str) -> Binary:
    def emit(v: Vector, a: str, b: str) -> str:
        """Shift; by as many bits as there are, or more, nothing is left but the sign."""
        bits = 8 * v.dtype.itemsize
        inside = v.lines.let(f"icmp ult {v.type} {b}, {v.constant(bits)}")
        if name == "right" and not v.unsigned:
            return _two("ashr")(v, a, v.select(inside, b, v.constant(bits - 1)))
        moved = _two("shl" if name == "left" else "lshr")(v, a, v.select(inside, b, v.constant(0)))
        return v.select(inside, moved, v.constant(0))

    return emit


_COMPARE = {name: _compare(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
_BITS = {"bit_and": _two("and"), "bit_or": _two("or"), "bit_xor": _two("xor"), "bit_not": _inverted}
_MASKS: dict[str, Emit] = {
    **_COMPARE,
    **_BITS,
    "logical_and": _two("and"),
    "logical_or": _two("or"),
    "logical_xor": _two("xor"),
    "logical_not": _inverted,
    "add": _for_masks("or", _two("add")),
    "mul": _for_masks("and", _two("mul")),
    "min": _for_masks("and", _extreme("lt")),
    "max": _for_masks("or", _extreme("gt")),
    "abs": _abs,
}
_INTEGER: dict[str, Emit] = {
    **_MASKS,
    "sub": _two("sub"),
    "neg": _negative,
    "sign": _sign,
    "square": _square,
    "cube": _cube,
    "relu": _relu,
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), _same),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "left_shift": _shifted("left"),
    "right_shift": _shifted("right"),
}
"""Function -> how to write it for integers; those of `_MASKS` are for bools as well."""
