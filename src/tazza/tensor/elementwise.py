"""Elementwise functions of the Python array-API standard, evaluated at once.

Each is an expression of one function (`deferred.apply`) that is evaluated where it stands: one mechanism for eager and
lazy work. Operands broadcast; element types follow promotion.py; a Python number takes the type of the other operand.
Results are row-major and have a memory of their own. Text can only be compared for equality.

Letters: `x` and `y` are operands (tensors, NumPy arrays, or numbers beside a tensor). Every function raises
`ShapeError` where shapes do not broadcast and `DTypeError` where it does not take such elements.

Source: Python array API standard 2023.12, "Element-wise functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tazza.errors import DTypeError
from tazza.tensor.deferred import apply, assign
from tazza.tensor.dtype import DataType
from tazza.tensor.operators import ArrayOperators
from tazza.tensor.tensor import Tensor
from tazza.tensor.views import writable

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "pow",
    "real",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]

Operand: TypeAlias = "ArrayOperators | npt.NDArray[Any] | np.generic | bool | int | float"

OPERANDS: tuple[type, ...] = (ArrayOperators, np.ndarray, np.generic, bool, int, float, str, bytes)
"""Types that the operators of a tensor take; any other gets its own turn."""

_TEXT: dict[str, Callable[[Any, Any], Any]] = {"equal": np.equal, "not_equal": np.not_equal}


def compute(name: str, *operands: object) -> Tensor:
    """Evaluate the function with this name in the standard."""
    given = [_operand(one) for one in operands]
    if any(isinstance(one, Tensor) and one.dtype is DataType.STRING for one in given):
        return _compare_text(name, given)
    return apply(name, *given).evaluate()


def compute_into(x: Tensor, name: str, y: object) -> Tensor:
    """Write `name(x, y)` over the elements of `x`, and return `x`.

    Raises:
        DTypeError: the result is of a higher kind than `x`.
        ShapeError: the result has another shape than `x`.
        UnsupportedError: elements of `x` lie on top of each other.
    """
    writable(x)
    assign(x, apply(name, x, _operand(y)))
    return x


def _operand(x: object) -> Any:
    """Return a tensor (text and NumPy's arrays become one), or a Python number."""
    if type(x) is Tensor or type(x) in (bool, int, float):
        return x
    if isinstance(x, np.ndarray | np.generic | str | bytes):
        return Tensor.from_numpy(np.asarray(x), copy=None)
    if isinstance(x, OPERANDS):
        return x
    raise DTypeError(f"{type(x).__name__} is no operand", hint="make it a tensor: tt.asarray(x)")


def _compare_text(name: str, operands: list[Any]) -> Tensor:
    function = _TEXT.get(name)
    others = [one for one in operands if not (isinstance(one, Tensor) and one.dtype is DataType.STRING)]
    if function is None or others:
        beside = f" and {others[0].spec if isinstance(others[0], Tensor) else others[0]}" if others else ""
        raise DTypeError(f"{name} does not take strings{beside}", hint="equal and not_equal compare strings to strings")
    x, y = operands
    shape = x.shape.broadcast(y.shape)
    return Tensor.from_numpy(np.broadcast_to(function(x.plain(), y.plain()).astype(bool), shape))


def abs(x: Operand, /) -> Tensor:
    """Return |x|."""
    return compute("abs", x)


def acos(x: Operand, /) -> Tensor:
    """Return the angle from 0 to pi (in radians) whose cosine is x."""
    return compute("acos", x)


def acosh(x: Operand, /) -> Tensor:
    """Return the value >= 0 whose hyperbolic cosine is x."""
    return compute("acosh", x)


def add(x: Operand, y: Operand, /) -> Tensor:
    """Return x + y; or of bools."""
    return compute("add", x, y)


def asin(x: Operand, /) -> Tensor:
    """Return the angle from -pi/2 to pi/2 (in radians) whose sine is x."""
    return compute("asin", x)


def asinh(x: Operand, /) -> Tensor:
    """Return the value whose hyperbolic sine is x."""
    return compute("asinh", x)


def atan(x: Operand, /) -> Tensor:
    """Return the angle from -pi/2 to pi/2 (in radians) whose tangent is x."""
    return compute("atan", x)


def atan2(x: Operand, y: Operand, /) -> Tensor:
    """Return the angle in radians of the point (y, x), from -pi to pi: here `x` is the ordinate, `y` the abscissa."""
    return compute("atan2", x, y)


def atanh(x: Operand, /) -> Tensor:
    """Return the value whose hyperbolic tangent is x."""
    return compute("atanh", x)


def bitwise_and(x: Operand, y: Operand, /) -> Tensor:
    """Return x & y, for integers and bools."""
    return compute("bitwise_and", x, y)


def bitwise_invert(x: Operand, /) -> Tensor:
    """Return ~x, for integers and bools."""
    return compute("bitwise_invert", x)


def bitwise_left_shift(x: Operand, y: Operand, /) -> Tensor:
    """Return x << y, for integers."""
    return compute("bitwise_left_shift", x, y)


def bitwise_or(x: Operand, y: Operand, /) -> Tensor:
    """Return x | y, for integers and bools."""
    return compute("bitwise_or", x, y)


def bitwise_right_shift(x: Operand, y: Operand, /) -> Tensor:
    """Return x >> y with the sign kept, for integers."""
    return compute("bitwise_right_shift", x, y)


def bitwise_xor(x: Operand, y: Operand, /) -> Tensor:
    """Return x ^ y, for integers and bools."""
    return compute("bitwise_xor", x, y)


def ceil(x: Operand, /) -> Tensor:
    """Return the least whole number >= x; integers stay."""
    return compute("ceil", x)


def clip(x: Operand, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Return x brought between `min` and `max`, each of which may be missing; the element type of x stays.

    >>> clip(Tensor.from_numpy(np.arange(5)), 1, 3).tolist()
    [1, 1, 2, 3, 3]
    """
    tensor: Tensor = _tensor(x)
    result = tensor if min is None else compute("maximum", tensor, min)
    result = result if max is None else compute("minimum", result, max)
    if result.dtype is not tensor.dtype:
        raise DTypeError(
            f"clip of {tensor.spec} with bounds that make it {result.dtype}", hint="give bounds of the type of x"
        )
    return tensor.copy() if result is tensor else result


def conj(x: Operand, /) -> Tensor:
    """Return x, in a memory of its own: elements are real."""
    return positive(x)


def copysign(x: Operand, y: Operand, /) -> Tensor:
    """Return |x| with the sign of y."""
    return compute("copysign", x, y)


def cos(x: Operand, /) -> Tensor:
    """Return the cosine of x radians."""
    return compute("cos", x)


def cosh(x: Operand, /) -> Tensor:
    """Return the hyperbolic cosine of x."""
    return compute("cosh", x)


def divide(x: Operand, y: Operand, /) -> Tensor:
    """Return x / y; integers give floating point."""
    return compute("divide", x, y)


def equal(x: Operand, y: Operand, /) -> Tensor:
    """Whether x is equal to y."""
    return compute("equal", x, y)


def exp(x: Operand, /) -> Tensor:
    """Return e to the power of x."""
    return compute("exp", x)


def expm1(x: Operand, /) -> Tensor:
    """Return exp(x) - 1, exact for small x."""
    return compute("expm1", x)


def floor(x: Operand, /) -> Tensor:
    """Return the greatest whole number <= x; integers stay."""
    return compute("floor", x)


def floor_divide(x: Operand, y: Operand, /) -> Tensor:
    """Return x // y, rounded down; an integer divided by 0 gives 0."""
    return compute("floor_divide", x, y)


def greater(x: Operand, y: Operand, /) -> Tensor:
    """Whether x is greater than y."""
    return compute("greater", x, y)


def greater_equal(x: Operand, y: Operand, /) -> Tensor:
    """Whether x is greater than or equal to y."""
    return compute("greater_equal", x, y)


def hypot(x: Operand, y: Operand, /) -> Tensor:
    """Return sqrt(x*x + y*y) without overflow on the way."""
    return compute("hypot", x, y)


def isfinite(x: Operand, /) -> Tensor:
    """Whether x is neither infinite nor NaN."""
    return compute("isfinite", x)


def isinf(x: Operand, /) -> Tensor:
    """Whether x is infinite."""
    return compute("isinf", x)


def isnan(x: Operand, /) -> Tensor:
    """Whether x is NaN."""
    return compute("isnan", x)


def less(x: Operand, y: Operand, /) -> Tensor:
    """Whether x is less than y."""
    return compute("less", x, y)


def less_equal(x: Operand, y: Operand, /) -> Tensor:
    """Whether x is less than or equal to y."""
    return compute("less_equal", x, y)


def log(x: Operand, /) -> Tensor:
    """Return the natural logarithm of x."""
    return compute("log", x)


def log10(x: Operand, /) -> Tensor:
    """Return the logarithm of x to base 10."""
    return compute("log10", x)


def log1p(x: Operand, /) -> Tensor:
    """Return log(1 + x), exact for small x."""
    return compute("log1p", x)


def log2(x: Operand, /) -> Tensor:
    """Return the logarithm of x to base 2."""
    return compute("log2", x)


def logaddexp(x: Operand, y: Operand, /) -> Tensor:
    """Return log(exp(x) + exp(y)) without overflow on the way."""
    return compute("logaddexp", x, y)


def logical_and(x: Operand, y: Operand, /) -> Tensor:
    """Return x and y, for bools."""
    return compute("logical_and", x, y)


def logical_not(x: Operand, /) -> Tensor:
    """Return not x, for bools."""
    return compute("logical_not", x)


def logical_or(x: Operand, y: Operand, /) -> Tensor:
    """Return x or y, for bools."""
    return compute("logical_or", x, y)


def logical_xor(x: Operand, y: Operand, /) -> Tensor:
    """Return whether one of x and y is true, for bools."""
    return compute("logical_xor", x, y)


def maximum(x: Operand, y: Operand, /) -> Tensor:
    """Return the greater of x and y; NaN wins."""
    return compute("maximum", x, y)


def minimum(x: Operand, y: Operand, /) -> Tensor:
    """Return the lesser of x and y; NaN wins."""
    return compute("minimum", x, y)


def multiply(x: Operand, y: Operand, /) -> Tensor:
    """Return x * y; and of bools."""
    return compute("multiply", x, y)


def negative(x: Operand, /) -> Tensor:
    """Return -x."""
    return compute("negative", x)


def not_equal(x: Operand, y: Operand, /) -> Tensor:
    """Whether x is not equal to y."""
    return compute("not_equal", x, y)


def positive(x: Operand, /) -> Tensor:
    """Return x, in a memory of its own."""
    return _tensor(x).copy()


def pow(x: Operand, y: Operand, /) -> Tensor:
    """Return x to the power of y."""
    return compute("pow", x, y)


def real(x: Operand, /) -> Tensor:
    """Return x, in a memory of its own: elements are real."""
    return positive(x)


def remainder(x: Operand, y: Operand, /) -> Tensor:
    """Return x - y * floor(x / y), which has the sign of y; an integer by 0 gives 0."""
    return compute("remainder", x, y)


def round(x: Operand, /) -> Tensor:
    """Return the nearest whole number, the even one from the middle; integers stay."""
    return compute("round", x)


def sign(x: Operand, /) -> Tensor:
    """Return -1, 0 or 1 by the sign of x; NaN stays."""
    return compute("sign", x)


def signbit(x: Operand, /) -> Tensor:
    """Whether x is negative, -0.0 included."""
    return compute("signbit", x)


def sin(x: Operand, /) -> Tensor:
    """Return the sine of x radians."""
    return compute("sin", x)


def sinh(x: Operand, /) -> Tensor:
    """Return the hyperbolic sine of x."""
    return compute("sinh", x)


def sqrt(x: Operand, /) -> Tensor:
    """Return the square root of x."""
    return compute("sqrt", x)


def square(x: Operand, /) -> Tensor:
    """Return x * x."""
    return compute("square", x)


def subtract(x: Operand, y: Operand, /) -> Tensor:
    """Return x - y."""
    return compute("subtract", x, y)


def tan(x: Operand, /) -> Tensor:
    """Return the tangent of x radians."""
    return compute("tan", x)


def tanh(x: Operand, /) -> Tensor:
    """Return the hyperbolic tangent of x."""
    return compute("tanh", x)


def trunc(x: Operand, /) -> Tensor:
    """Return x without its fraction; integers stay."""
    return compute("trunc", x)


def where(condition: Operand, x: Operand, y: Operand, /) -> Tensor:
    """Return the elements of x where the condition (bools) holds, else those of y."""
    return compute("where", condition, x, y)


def _tensor(x: object) -> Tensor:
    found = _operand(x)
    return found if isinstance(found, Tensor) else Tensor.from_numpy(np.asarray(found))
