"""The functions of the expression language: their names, what they cost, what they mean in NumPy, and their types.

`FUNCTIONS` is the whole language: formulas of operators, lazy expressions and compiled kernels share it. Minimum,
maximum and relu hand on NaN; round goes to the even neighbour from the middle; floor_divide and remainder round
towards minus infinity, and give 0 where an integer is divided by 0. A function with the name of an element type casts.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DTypeError
from tazza.runtime.cache import remembered
from tazza.tensor.dtype import DataType
from tazza.tensor.promotion import BOOL, FLOATING, INTEGER, float_type, kind_of, promote


class Rule(enum.Enum):
    """Which types a function takes, and which it gives; all operands are first brought to one type."""

    ANY = "what it gets, bool too"
    NUMBER = "what it gets, which is no bool"
    FLOAT = "floating point, into which integers are turned"
    DIVIDE = "floating point; integers become float64"
    TRUTH = "bool, whatever it gets"
    LOGIC = "bool of bools"
    BITS = "what it gets, integers or bools"
    SHIFT = "what it gets, integers"
    WHERE = "the type of the last two; the first is a bool"
    CAST = "the type that it is called after"


@dataclass(frozen=True, slots=True)
class Function:
    """One function: its operands, its cost in flops, its meaning in NumPy, its types, its name in the array standard.

    Half-precision operands come to `evaluate` as float32. `exact`: it selects among its operands, changes signs or
    answers yes or no, and so gives the same bits wherever it is computed, without rounding or overflow.
    """

    name: str
    arity: int
    flops: int
    evaluate: Callable[..., Any]
    rule: Rule
    standard: str = ""
    exact: bool = False


def _erf(x: Any) -> Any:
    values = np.asarray(x)
    return np.vectorize(math.erf, otypes=[np.float64])(values).astype(values.dtype)


def _sigmoid(x: Any) -> Any:
    small: Any = np.exp(-np.abs(x))  # at most 1: nothing overflows
    return cast("Any", np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


def _cube(x: Any) -> Any:
    return x * x * x


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _where(condition: Any, yes: Any, no: Any) -> Any:
    return cast("Any", np.where(np.asarray(condition, bool), yes, no))


def _whole(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Leave integers as they are, which NumPy does in its newer versions only."""

    def evaluate(x: Any) -> Any:
        return x if np.asarray(x).dtype.kind in "iu" else function(x)

    return evaluate


def _power(a: Any, b: Any) -> Any:
    base, exponent = np.asarray(a), np.asarray(b)
    if base.dtype.kind == exponent.dtype.kind == "i" and np.any(exponent < 0):
        raise ArgumentError(
            f"pow of {base.dtype}: the exponent {exponent.min()} is < 0, and the result no integer",
            hint="cast to a floating-point type first",
        )
    return np.power(a, b)


def _cast(dtype: DataType) -> Callable[[Any], Any]:
    return lambda x: np.asarray(x).astype(dtype.numpy)


def _unary() -> list[Function]:
    return [
        Function("neg", 1, 1, np.negative, Rule.NUMBER, "negative", exact=True),
        Function("abs", 1, 1, np.abs, Rule.ANY, exact=True),
        Function("sign", 1, 2, np.sign, Rule.NUMBER, exact=True),
        Function("square", 1, 1, np.square, Rule.NUMBER),
        Function("cube", 1, 2, _cube, Rule.NUMBER),
        Function("relu", 1, 1, _relu, Rule.NUMBER, exact=True),
        Function("floor", 1, 1, _whole(np.floor), Rule.NUMBER),
        Function("ceil", 1, 1, _whole(np.ceil), Rule.NUMBER),
        Function("trunc", 1, 1, _whole(np.trunc), Rule.NUMBER),
        Function("round", 1, 1, _whole(np.rint), Rule.NUMBER),
        Function("sqrt", 1, 6, np.sqrt, Rule.FLOAT),
        Function("rsqrt", 1, 10, _rsqrt, Rule.FLOAT),
        Function("cbrt", 1, 20, np.cbrt, Rule.FLOAT),
        Function("exp", 1, 12, np.exp, Rule.FLOAT),
        Function("exp2", 1, 12, np.exp2, Rule.FLOAT),
        Function("log", 1, 15, np.log, Rule.FLOAT),
        Function("log2", 1, 15, np.log2, Rule.FLOAT),
        Function("log10", 1, 15, np.log10, Rule.FLOAT),
        Function("log1p", 1, 20, np.log1p, Rule.FLOAT),
        Function("expm1", 1, 16, np.expm1, Rule.FLOAT),
        Function("tanh", 1, 18, np.tanh, Rule.FLOAT),
        Function("sigmoid", 1, 18, _sigmoid, Rule.FLOAT),
        Function("erf", 1, 25, _erf, Rule.FLOAT),
        Function("sin", 1, 18, np.sin, Rule.FLOAT),
        Function("cos", 1, 18, np.cos, Rule.FLOAT),
        Function("tan", 1, 30, np.tan, Rule.FLOAT),
        Function("asin", 1, 30, np.arcsin, Rule.FLOAT),
        Function("acos", 1, 30, np.arccos, Rule.FLOAT),
        Function("atan", 1, 30, np.arctan, Rule.FLOAT),
        Function("sinh", 1, 30, np.sinh, Rule.FLOAT),
        Function("cosh", 1, 30, np.cosh, Rule.FLOAT),
        Function("asinh", 1, 30, np.arcsinh, Rule.FLOAT),
        Function("acosh", 1, 30, np.arccosh, Rule.FLOAT),
        Function("atanh", 1, 30, np.arctanh, Rule.FLOAT),
        Function("isnan", 1, 1, np.isnan, Rule.TRUTH, exact=True),
        Function("isinf", 1, 1, np.isinf, Rule.TRUTH, exact=True),
        Function("isfinite", 1, 1, np.isfinite, Rule.TRUTH, exact=True),
        Function("signbit", 1, 1, np.signbit, Rule.TRUTH, exact=True),
        Function("logical_not", 1, 1, np.logical_not, Rule.LOGIC, exact=True),
        Function("bit_not", 1, 1, np.invert, Rule.BITS, "bitwise_invert"),
    ]


def _binary() -> list[Function]:
    return [
        Function("add", 2, 1, np.add, Rule.ANY),
        Function("sub", 2, 1, np.subtract, Rule.NUMBER, "subtract"),
        Function("mul", 2, 1, np.multiply, Rule.ANY, "multiply"),
        Function("div", 2, 4, np.divide, Rule.DIVIDE, "divide"),
        Function("lt", 2, 1, np.less, Rule.TRUTH, "less", exact=True),
        Function("le", 2, 1, np.less_equal, Rule.TRUTH, "less_equal", exact=True),
        Function("gt", 2, 1, np.greater, Rule.TRUTH, "greater", exact=True),
        Function("ge", 2, 1, np.greater_equal, Rule.TRUTH, "greater_equal", exact=True),
        Function("eq", 2, 1, np.equal, Rule.TRUTH, "equal", exact=True),
        Function("ne", 2, 1, np.not_equal, Rule.TRUTH, "not_equal", exact=True),
        Function("min", 2, 1, np.minimum, Rule.ANY, "minimum", exact=True),
        Function("max", 2, 1, np.maximum, Rule.ANY, "maximum", exact=True),
        Function("pow", 2, 35, _power, Rule.NUMBER),
        Function("floor_divide", 2, 20, np.floor_divide, Rule.NUMBER),
        Function("remainder", 2, 20, np.remainder, Rule.NUMBER),
        Function("atan2", 2, 40, np.arctan2, Rule.FLOAT),
        Function("hypot", 2, 10, np.hypot, Rule.FLOAT),
        Function("logaddexp", 2, 40, np.logaddexp, Rule.FLOAT),
        Function("copysign", 2, 1, np.copysign, Rule.FLOAT, exact=True),
        Function("logical_and", 2, 1, np.logical_and, Rule.LOGIC, exact=True),
        Function("logical_or", 2, 1, np.logical_or, Rule.LOGIC, exact=True),
        Function("logical_xor", 2, 1, np.logical_xor, Rule.LOGIC, exact=True),
        Function("bit_and", 2, 1, np.bitwise_and, Rule.BITS, "bitwise_and"),
        Function("bit_or", 2, 1, np.bitwise_or, Rule.BITS, "bitwise_or"),
        Function("bit_xor", 2, 1, np.bitwise_xor, Rule.BITS, "bitwise_xor"),
        Function("left_shift", 2, 1, np.left_shift, Rule.SHIFT, "bitwise_left_shift"),
        Function("right_shift", 2, 1, np.right_shift, Rule.SHIFT, "bitwise_right_shift"),
    ]


CASTS = {dtype.label: dtype for dtype in DataType if dtype is not DataType.STRING}
"""Names of the functions that cast, and the types that they cast to."""

FUNCTIONS = {
    function.name: function
    for function in (
        *_unary(),
        *_binary(),
        Function("where", 3, 1, _where, Rule.WHERE, exact=True),
        *(Function(label, 1, 0, _cast(dtype), Rule.CAST) for label, dtype in CASTS.items()),
    )
}
"""The whole language."""

TRUTHS = frozenset(name for name, one in FUNCTIONS.items() if one.rule in (Rule.TRUTH, Rule.LOGIC))
"""Functions that answer yes or no; in a formula of an operator that is 1.0 or 0.0, else a bool."""

BITWISE = frozenset(name for name, one in FUNCTIONS.items() if one.rule in (Rule.BITS, Rule.SHIFT))
"""Functions of integers and bools, which mean nothing where all numbers are floating point."""

STANDARD = {one.standard: name for name, one in FUNCTIONS.items() if one.standard} | {name: name for name in FUNCTIONS}
"""Name in the array-API standard, or in the language, -> name in the language."""

_ALLOWED: dict[Rule, tuple[frozenset[int], str]] = {
    Rule.NUMBER: (frozenset({INTEGER, FLOATING}), "numbers"),
    Rule.FLOAT: (frozenset({INTEGER, FLOATING}), "numbers"),
    Rule.DIVIDE: (frozenset({INTEGER, FLOATING}), "numbers"),
    Rule.LOGIC: (frozenset({BOOL}), "bools"),
    Rule.BITS: (frozenset({BOOL, INTEGER}), "integers or bools"),
    Rule.SHIFT: (frozenset({INTEGER}), "integers"),
}


@remembered("signatures of functions", entries=4096)
def signature(name: str, operands: tuple[DataType, ...]) -> tuple[tuple[DataType, ...], DataType]:
    """Return the types that a function's operands are brought to, and the type of what it gives.

    Raises:
        DTypeError: it does not take these types.

    >>> signature("div", (DataType.INT8, DataType.INT32))
    ((DataType.DOUBLE, DataType.DOUBLE), DataType.DOUBLE)
    """
    function = FUNCTIONS[name]
    rule = function.rule
    if rule is Rule.CAST:
        return operands, CASTS[name]
    if rule is Rule.WHERE:
        if operands[0] is not DataType.BOOL:
            raise DTypeError(f"where: its condition is {operands[0]}, not bool", hint="compare: where(x != 0, a, b)")
        common = promote(operands[1], operands[2])
        return (DataType.BOOL, common, common), common
    common = functools.reduce(promote, operands)
    kinds, told = _ALLOWED.get(rule, (frozenset({BOOL, INTEGER, FLOATING}), ""))
    if kind_of(common) not in kinds:
        shown = ", ".join(str(one) for one in operands)
        raise DTypeError(f"{name} takes {told}, not {shown}", hint=f"cast to {told}, such as x.cast('int32')")
    if rule is Rule.DIVIDE and kind_of(common) != FLOATING:
        common = DataType.DOUBLE
    elif rule is Rule.FLOAT:
        common = float_type(common)
    result = DataType.BOOL if rule in (Rule.TRUTH, Rule.LOGIC) else common
    return (common,) * len(operands), result


def arity_error(name: str, given: Sequence[object]) -> ArgumentError:
    """Return the error for a wrong number of operands."""
    return ArgumentError(f"{name} takes {FUNCTIONS[name].arity} operands, it got {len(given)}")
