"""Formulas of integers and bools: which types their parts have. A number has the type of what it meets."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.codegen.typed_function import unsupported
from tazza.codegen.vector import MEMORY
from tazza.data_class import dataclass
from tazza.tensor import DataType
from tazza.tensor.expression import Expression, Node
from tazza.tensor.function import signature

WHOLE = frozenset(dtype for dtype in MEMORY if not dtype.is_float)
"""Element types of integers and bools."""


@dataclass(frozen=True, slots=True)
class Whole:
    """An expression in which names stand for numbers, its type, and by name the types and values of these numbers."""

    expression: Expression
    dtype: DataType
    numbers: Mapping[str, tuple[DataType, int]]


def misfit(computed: DataType, target: DataType) -> str | None:
    """Return why numbers of one type are not written as another: integers would be cut where they do not fit.

    >>> misfit(DataType.INT64, DataType.INT32), misfit(DataType.BOOL, DataType.INT32)
    ('it computes int64, not int32', None)
    """
    if computed is target or not {computed, target} <= WHOLE or DataType.BOOL in (computed, target):
        return None
    return f"it computes {computed.label}, not {target.label}"


def whole(expression: Expression, names: Mapping[str, DataType]) -> Whole | str:
    """Return an expression over integers and bools with the types of its numbers, or why it is not compiled.

    >>> found = whole(Expression.parse("where(a < 3, -a, b)"), dict.fromkeys("ab", DataType.INT16))
    >>> found.expression.text(), found.numbers
    ('where(a < int16_3, -a, b)', {'int16_3': (DataType.INT16, 3)})
    >>> whole(Expression.parse("0.5 * a"), {"a": DataType.INT32})
    '0.5 is no int32'
    """
    done: dict[Node, tuple[Node, DataType | None]] = {}
    numbers: dict[str, tuple[DataType, int]] = {}
    for node in expression.nodes():
        if node.head == "name":
            done[node] = node, names[str(node.value)]
        elif not node.arguments:
            done[node] = node, None
        else:
            found = _applied(node.head, [done[one] for one in node.arguments], numbers)
            if isinstance(found, str):
                return found
            done[node] = found
    root, dtype = done[expression.root]
    return "it is a number alone" if dtype is None else Whole(Expression(root), dtype, numbers)


def _applied(
    name: str, operands: list[tuple[Node, DataType | None]], numbers: dict[str, tuple[DataType, int]]
) -> tuple[Node, DataType] | str:
    """Return a function of operands and its type; numbers among these are given names."""
    first = 1 if name == "where" else 0
    types = {dtype for _, dtype in operands[first:] if dtype is not None}
    if len(types) != 1:
        return f"{name} of {' and '.join(sorted(map(str, types))) or 'numbers alone'} is not compiled"
    (dtype,) = types
    if first and operands[0][1] is not DataType.BOOL:
        return f"the condition of {name} is no bool"
    reason = unsupported(name, (dtype,) * len(operands))
    if reason is not None:
        return reason
    arguments: list[Node] = []
    for node, own in operands:
        if own is None:
            value = 0.0 if node.value is None else float(node.value)
            if not _holds(dtype, value):
                return f"{value:g} is no {dtype.label}"
            label = f"{dtype.label}_{int(value)}".replace("-", "_")
            numbers[label] = dtype, int(value)
            arguments.append(Node("name", label))
        else:
            arguments.append(node)
    given = (DataType.BOOL, dtype, dtype) if first else (dtype,) * len(operands)
    return Node(name, None, tuple(arguments)), signature(name, given)[1]


def _holds(dtype: DataType, value: float) -> bool:
    """Whether a type has a number, small enough that float64 has all beside it."""
    if not value.is_integer() or abs(value) > 2**53:
        return False
    if dtype is DataType.BOOL:
        return value in (0, 1)
    bits = 8 * dtype.itemsize
    unsigned = dtype in (DataType.UINT8, DataType.UINT16)
    return (0 <= value < 2**bits) if unsigned else (-(2 ** (bits - 1)) <= value < 2 ** (bits - 1))
