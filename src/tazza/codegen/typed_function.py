"""The functions of the expression language on vectors of every element type.

Integers wrap around; a division by 0 gives 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tazza.codegen.function import UNARY, Emission
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.tensor import DataType
from tazza.tensor.expression import Expression, Node
from tazza.tensor.function import CASTS, TRUTHS, signature
from tazza.tensor.promotion import BOOL, FLOATING, kind_of


def folded(vector: Vector, value: Term, function: str) -> Term:
    """Return all lanes joined by a function of two operands, one half with the other, as a vector of one lane."""

    def join(low: Term, high: Term) -> Term:
        return joined(Vector(vector.lines, low.count, vector.dtype), function, low, high)

    return value.halved(join)


def joined(vector: Vector, function: str, a: Term, b: Term) -> Term:
    """Return a function of two vectors of one type."""
    values, types = {"a": a, "b": b}, {"a": vector.dtype, "b": vector.dtype}
    node = Node(function, None, (Node("name", "a"), Node("name", "b")))
    return TypedEmission(vector.lines, vector.count, values, types).write(Expression(node))


class TypedEmission(Emission):
    """Writes expressions over vectors of known types: truths are masks, integers are integers."""

    def __init__(self, lines: Lines, count: int, values: Mapping[str, Term], types: Mapping[str, DataType]) -> None:
        """Take the vectors that the names stand for, and their types."""
        super().__init__(Vector(lines, count), values)
        self._lines = lines
        self._count = count
        self._names = types
        self._types: dict[Node, DataType] = {}

    def _node(self, node: Node) -> Term:
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
            return operands[0].choose(*operands[1:])
        if not vector.dtype.is_float:
            return _INTEGER[node.head](vector, *operands)
        self.v = vector
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

Emit = Callable[..., Term]
Binary = Callable[[Vector, Term, Term], Term]


def _two(name: str) -> Binary:
    return lambda _, a, b: a.op(name, b)


def _compare(predicate: str) -> Binary:
    def emit(v: Vector, a: Term, b: Term) -> Term:
        sign = "" if predicate in ("eq", "ne") else "u" if v.unsigned else "s"
        return a.compare(f"{sign}{predicate}", b)

    return emit


def _for_masks(mask: str, integer: Binary) -> Binary:
    """Use another instruction where the type is bool."""
    return lambda v, a, b: _two(mask)(v, a, b) if v.dtype is DataType.BOOL else integer(v, a, b)


def _extreme(predicate: str) -> Binary:
    return lambda v, a, b: _compare(predicate)(v, a, b).choose(a, b)


def _abs(v: Vector, a: Term) -> Term:
    return a if v.unsigned else _compare("lt")(v, a, v.constant(0)).choose(-a, a)


def _sign(v: Vector, a: Term) -> Term:
    above = _compare("gt")(v, a, v.constant(0)).to_unsigned(v.scalar)
    below = _compare("lt")(v, a, v.constant(0)).to_unsigned(v.scalar)
    return above - below


def _relu(v: Vector, a: Term) -> Term:
    return _extreme("gt")(v, a, v.constant(0))


def _neg(v: Vector, a: Term) -> Term:
    return -a


def _same(v: Vector, a: Term) -> Term:
    return a


def _inverted(v: Vector, a: Term) -> Term:
    return ~a


def _divided(v: Vector, a: Term, b: Term) -> tuple[Term, Term]:
    """Return quotient and remainder, rounded towards minus infinity; 0 and 0 where b is 0."""
    zero, one = v.constant(0), v.constant(1)
    nothing = _compare("eq")(v, b, zero)
    bad = nothing
    if not v.unsigned:  # the lowest number divided by -1 overflows, which processors punish: it stays itself
        lowest = _compare("eq")(v, a, v.constant(-(2 ** (8 * v.dtype.itemsize - 1))))
        minus = lowest.within(_compare("eq")(v, b, v.constant(-1)))
        bad = nothing | minus
    divisor = bad.choose(one, b)
    quotient = _quotient(v, a, divisor)
    rest = a - quotient * divisor
    if not v.unsigned:
        signs = _compare("lt")(v, rest ^ divisor, zero)
        other = signs.within(_compare("ne")(v, rest, zero))
        quotient = other.choose(quotient - one, quotient)
        rest = other.choose(rest + divisor, rest)
    return nothing.choose(zero, quotient), nothing.choose(zero, rest)


def _quotient(v: Vector, a: Term, b: Term) -> Term:
    """Return the quotient, cut off; float64 holds that of 32 bits exactly, and has vector division."""
    if v.dtype is DataType.INT64:
        return a.op("sdiv", b)
    wide = Vector(v.lines, v.count, DataType.DOUBLE)
    quotient = v.converted(a, DataType.DOUBLE) / v.converted(b, DataType.DOUBLE)
    return wide.converted(quotient, v.dtype)


def _floor_divide(v: Vector, a: Term, b: Term) -> Term:
    return _divided(v, a, b)[0]


def _remainder(v: Vector, a: Term, b: Term) -> Term:
    return _divided(v, a, b)[1]


def _square(v: Vector, a: Term) -> Term:
    return a * a


def _cube(v: Vector, a: Term) -> Term:
    return _square(v, a) * a


def _shifted(name: str) -> Binary:
    def emit(v: Vector, a: Term, b: Term) -> Term:
        """Shift; by as many bits as there are, or more, nothing is left but the sign."""
        bits = 8 * v.dtype.itemsize
        inside = b.below(bits)
        if name == "right" and not v.unsigned:
            return a >> inside.choose(b, bits - 1)
        moved = a.op("shl" if name == "left" else "lshr", inside.choose(b, 0))
        return inside.choose(moved, 0)

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
    "neg": _neg,
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
