"""Formulas over arrays as lazy expressions, so that both mean the same: one typing, one rounding, one evaluator.

What a formula adds: its constants take the type of the arrays beside them, a truth that is computed with counts as 1
or 0, and a number that is asked for a truth is compared with 0.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import numpy as np

from tazza.array.deferred import Lazy, apply, lazy
from tazza.array.evaluation import compute_few
from tazza.array.evaluator import FEW, Array
from tazza.tensor.attached import attached
from tazza.tensor.dtype import DataType
from tazza.tensor.expression import Expression, Node
from tazza.tensor.function import FUNCTIONS, Rule
from tazza.tensor.promotion import BOOL, INTEGER, kind_of, promote

Value: TypeAlias = Lazy | float

_KEEP_TRUTHS = frozenset({Rule.LOGIC, Rule.BITS, Rule.CAST})
"""Rules of functions that take a bool as it is."""


def lower(expression: Expression, values: Mapping[str, Any]) -> Value:
    """Return what a formula is for these values: a number where none of them is an array.

    Raises:
        DTypeError: a function does not take these types, or a constant that is no integer meets integers.

    >>> x = np.array([7, 4]); [cast(Lazy, lower(Expression.parse(text), {"x": x})).dtype for text in ("x / 2", "x < 5")]
    [DataType.DOUBLE, DataType.BOOL]
    """
    done: dict[Node, Value] = {}
    given = {name: _operand(values[name]) for name in expression.names}
    types = [one.dtype for one in given.values() if isinstance(one, Lazy)]
    joint = functools.reduce(promote, types, DataType.BOOL)
    if joint is DataType.BOOL:
        joint = DataType.FLOAT
    for node in expression.nodes():
        if node.head == "name":
            done[node] = given[str(node.value)]
        elif node.head == "constant":
            done[node] = cast("float", node.value)
        else:
            done[node] = _applied(node.head, [done[one] for one in node.arguments], joint)
    return done[expression.root]


@attached
def compute_formula(expression: Expression, values: Mapping[str, Any]) -> Array:
    """Return the value of a formula, computed by NumPy."""
    found = lower(expression, values)
    if not isinstance(found, Lazy):
        return np.asarray(found, np.float64)
    if found.size < FEW:
        return compute_few(found, None).numpy()
    return found.evaluate(evaluator="numpy").numpy()


def _operand(value: Any) -> Value:
    if not hasattr(value, "dtype"):
        return float(value)
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, np.dtype[Any]]", value)
        return lazy(array.astype(array.dtype.newbyteorder("="), copy=False))
    return lazy(value)


def _applied(name: str, operands: list[Value], joint: DataType) -> Value:
    function = FUNCTIONS[name]
    if not any(isinstance(one, Lazy) for one in operands):
        with np.errstate(all="ignore"):
            return float(function.evaluate(*[np.float64(one) for one in cast("list[float]", operands)]))
    match function.rule:
        case Rule.LOGIC:
            operands = [_truth(one) for one in operands]
        case Rule.WHERE:
            chosen = operands[1:]
            if not all(_is_truth(one) for one in chosen):
                chosen = [_number(one, joint) for one in _with_type(chosen, joint)]
            operands = [_truth(operands[0]), *_beside(chosen)]
        case rule if rule in _KEEP_TRUTHS:
            pass
        case _:
            operands = _beside([_number(one, joint) for one in operands])
    return apply(name, *operands)


def _with_type(operands: list[Value], joint: DataType) -> list[Value]:
    """Give one of several constants the type that the others take then, if it holds them."""
    constants = [one for one in operands if isinstance(one, float)]
    if len(constants) < len(operands) or not (joint.is_float or all(one.is_integer() for one in constants)):
        return operands
    return [lazy(joint.numpy.type(operands[0])), *operands[1:]]


def _is_truth(value: Value) -> bool:
    return isinstance(value, Lazy) and value.dtype is DataType.BOOL


def _truth(value: Value) -> Value:
    if not isinstance(value, Lazy):
        return lazy(value != 0)
    return value if kind_of(value.dtype) == BOOL else apply("ne", value, 0)


def _number(value: Value, joint: DataType) -> Value:
    return value.cast(joint) if isinstance(value, Lazy) and value.dtype is DataType.BOOL else value


def _beside(operands: list[Value]) -> list[Value]:
    """Make integers of whole constants that stand beside integers."""
    if all(kind_of(one.dtype) == INTEGER for one in operands if isinstance(one, Lazy)):
        return [int(one) if isinstance(one, float) and one.is_integer() else one for one in operands]
    return operands
