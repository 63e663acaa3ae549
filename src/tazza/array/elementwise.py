"""Elementwise functions of the Python array-API standard, evaluated at once.

Each is an expression of one function (`deferred.apply`) that is evaluated where it stands: one mechanism for eager and
lazy work. Beside a lazy operand the result is lazy too, and nothing is evaluated. Operands broadcast; element types
follow promotion.py; a Python number takes the type of the other operand.
Results are row-major and have a memory of their own. Text can only be compared for equality.

Letters: `x` and `y` are operands (tensors, NumPy arrays, or numbers beside a tensor). Every function raises
`ShapeError` where shapes do not broadcast and `DTypeError` where it does not take such elements.

Source: Python array API standard 2024.12, "Element-wise functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast, overload

import numpy as np
import numpy.typing as npt

from tazza.array.creation import empty_like
from tazza.array.deferred import Lazy, apply, assign, lazy
from tazza.array.views import writable
from tazza.errors import DTypeError
from tazza.tensor.attached import attached
from tazza.tensor.dtype import DataType
from tazza.tensor.operators import ArrayOperators
from tazza.tensor.tensor import Tensor

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
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
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

Result: TypeAlias = Tensor | Lazy
"""Lazy where an operand is."""
Operand: TypeAlias = ArrayOperators | npt.NDArray[Any] | np.generic | bool | int | float
Given: TypeAlias = Operand | Lazy

OPERANDS: tuple[type, ...] = (ArrayOperators, np.ndarray, np.generic, bool, int, float, str, bytes)
"""Types that the operators of a tensor take; any other gets its own turn."""

_TEXT: dict[str, Callable[[Any, Any], Any]] = {"equal": np.equal, "not_equal": np.not_equal}


class Unary(Protocol):
    """A function of one operand."""

    @overload
    def __call__(self, x: Operand, /) -> Tensor: ...
    @overload
    def __call__(self, x: Lazy, /) -> Lazy: ...


class Binary(Protocol):
    """A function of two operands."""

    @overload
    def __call__(self, x: Operand, y: Operand, /) -> Tensor: ...
    @overload
    def __call__(self, x: Lazy, y: Given, /) -> Lazy: ...
    @overload
    def __call__(self, x: Operand, y: Lazy, /) -> Lazy: ...


class Ternary(Protocol):
    """A function of three operands."""

    @overload
    def __call__(self, condition: Operand, x: Operand, y: Operand, /) -> Tensor: ...
    @overload
    def __call__(self, condition: Given, x: Given, y: Given, /) -> Result: ...


def unary(function: Callable[[Given], Result]) -> Unary:
    """Say of a function that its result is lazy where the operand is."""
    return cast("Unary", function)


def binary(function: Callable[[Given, Given], Result]) -> Binary:
    """Say of a function that its result is lazy where an operand is."""
    return cast("Binary", function)


def ternary(function: Callable[[Given, Given, Given], Result]) -> Ternary:
    """Say of a function that its result is lazy where an operand is."""
    return cast("Ternary", function)


@attached
def compute_operator(name: str, *operands: object) -> Any:
    """Evaluate a function for an operator of tensors; `NotImplemented` where a type is not one that these take."""
    return compute(name, *operands) if all(isinstance(one, OPERANDS) for one in operands) else NotImplemented


@attached
def update_by_operator(name: str, x: Tensor, y: object) -> Any:
    """Write `name(x, y)` over the elements of `x`; `NotImplemented` where `y` is of a type that tensors do not take."""
    return compute_into(x, name, y) if isinstance(y, OPERANDS) else NotImplemented


def compute(name: str, *operands: object) -> Result:
    """Evaluate the function with this name in the standard; or record it, where an operand is lazy."""
    if any(isinstance(one, Lazy) for one in operands):
        return apply(name, *[one if isinstance(one, Lazy) else _operand(one, copied=False) for one in operands])
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


def _operand(x: object, *, copied: bool = True) -> Any:
    """Return a tensor (text and NumPy's arrays become one, unless `copied` is false), or a Python number."""
    if type(x) is Tensor or type(x) in (bool, int, float):
        return x
    if not copied and isinstance(x, np.ndarray):
        return cast("Any", x)
    if isinstance(x, np.ndarray | np.generic | str | bytes):
        return Tensor.from_numpy(np.asarray(x), copy=None)
    if isinstance(x, OPERANDS):
        return x
    raise DTypeError(f"{type(x).__name__} is no operand", hint="make it a tensor: ta.asarray(x)")


def _compare_text(name: str, operands: list[Any]) -> Tensor:
    function = _TEXT.get(name)
    others = [one for one in operands if not (isinstance(one, Tensor) and one.dtype is DataType.STRING)]
    if function is None or others:
        beside = f" and {others[0].spec if isinstance(others[0], Tensor) else others[0]}" if others else ""
        raise DTypeError(f"{name} does not take strings{beside}", hint="equal and not_equal compare strings to strings")
    x, y = operands
    shape = x.shape.broadcast(y.shape)
    return Tensor.from_numpy(np.broadcast_to(function(x.plain(), y.plain()).astype(bool), shape))


@unary
def abs(x: Given, /) -> Result:
    """Return |x|."""
    return compute("abs", x)


@unary
def acos(x: Given, /) -> Result:
    """Return the angle from 0 to pi (in radians) whose cosine is x."""
    return compute("acos", x)


@unary
def acosh(x: Given, /) -> Result:
    """Return the value >= 0 whose hyperbolic cosine is x."""
    return compute("acosh", x)


@binary
def add(x: Given, y: Given, /) -> Result:
    """Return x + y; or of bools."""
    return compute("add", x, y)


@unary
def asin(x: Given, /) -> Result:
    """Return the angle from -pi/2 to pi/2 (in radians) whose sine is x."""
    return compute("asin", x)


@unary
def asinh(x: Given, /) -> Result:
    """Return the value whose hyperbolic sine is x."""
    return compute("asinh", x)


@unary
def atan(x: Given, /) -> Result:
    """Return the angle from -pi/2 to pi/2 (in radians) whose tangent is x."""
    return compute("atan", x)


@binary
def atan2(x: Given, y: Given, /) -> Result:
    """Return the angle in radians of the point (y, x), from -pi to pi: here `x` is the ordinate, `y` the abscissa."""
    return compute("atan2", x, y)


@unary
def atanh(x: Given, /) -> Result:
    """Return the value whose hyperbolic tangent is x."""
    return compute("atanh", x)


@binary
def bitwise_and(x: Given, y: Given, /) -> Result:
    """Return x & y, for integers and bools."""
    return compute("bitwise_and", x, y)


@unary
def bitwise_invert(x: Given, /) -> Result:
    """Return ~x, for integers and bools."""
    return compute("bitwise_invert", x)


@binary
def bitwise_left_shift(x: Given, y: Given, /) -> Result:
    """Return x << y, for integers."""
    return compute("bitwise_left_shift", x, y)


@binary
def bitwise_or(x: Given, y: Given, /) -> Result:
    """Return x | y, for integers and bools."""
    return compute("bitwise_or", x, y)


@binary
def bitwise_right_shift(x: Given, y: Given, /) -> Result:
    """Return x >> y with the sign kept, for integers."""
    return compute("bitwise_right_shift", x, y)


@binary
def bitwise_xor(x: Given, y: Given, /) -> Result:
    """Return x ^ y, for integers and bools."""
    return compute("bitwise_xor", x, y)


@unary
def ceil(x: Given, /) -> Result:
    """Return the least whole number >= x; integers stay."""
    return compute("ceil", x)


@overload
def clip(x: Lazy, /, min: Given | None = None, max: Given | None = None) -> Lazy: ...
@overload
def clip(x: Operand, /, min: Operand | None = None, max: Operand | None = None) -> Tensor: ...
@attached
def clip(x: Given, /, min: Given | None = None, max: Given | None = None) -> Result:
    """Return x brought between `min` and `max`, each of which may be missing; the element type of x stays.

    >>> clip(Tensor.from_numpy(np.arange(5)), 1, 3).tolist()
    [1, 1, 2, 3, 3]
    """
    given = x if isinstance(x, Lazy) else _tensor(x)
    result = given if min is None else compute("maximum", given, min)
    result = result if max is None else compute("minimum", result, max)
    if result.dtype is not given.dtype:
        raise DTypeError(
            f"clip of {given.dtype} with bounds that make it {result.dtype}", hint="give bounds of the type of x"
        )
    return result.copy() if isinstance(result, Tensor) and result is given else result


@unary
def conj(x: Given, /) -> Result:
    """Return x, in a memory of its own: elements are real."""
    return positive(x)


@binary
def copysign(x: Given, y: Given, /) -> Result:
    """Return |x| with the sign of y."""
    return compute("copysign", x, y)


@unary
def cos(x: Given, /) -> Result:
    """Return the cosine of x radians."""
    return compute("cos", x)


@unary
def cosh(x: Given, /) -> Result:
    """Return the hyperbolic cosine of x."""
    return compute("cosh", x)


@binary
def divide(x: Given, y: Given, /) -> Result:
    """Return x / y; integers give floating point."""
    return compute("divide", x, y)


@binary
def equal(x: Given, y: Given, /) -> Result:
    """Whether x is equal to y."""
    return compute("equal", x, y)


@unary
def exp(x: Given, /) -> Result:
    """Return e to the power of x."""
    return compute("exp", x)


@unary
def expm1(x: Given, /) -> Result:
    """Return exp(x) - 1, exact for small x."""
    return compute("expm1", x)


@unary
def floor(x: Given, /) -> Result:
    """Return the greatest whole number <= x; integers stay."""
    return compute("floor", x)


@binary
def floor_divide(x: Given, y: Given, /) -> Result:
    """Return x // y, rounded down; an integer divided by 0 gives 0."""
    return compute("floor_divide", x, y)


@binary
def greater(x: Given, y: Given, /) -> Result:
    """Whether x is greater than y."""
    return compute("greater", x, y)


@binary
def greater_equal(x: Given, y: Given, /) -> Result:
    """Whether x is greater than or equal to y."""
    return compute("greater_equal", x, y)


@binary
def hypot(x: Given, y: Given, /) -> Result:
    """Return sqrt(x*x + y*y) without overflow on the way."""
    return compute("hypot", x, y)


@unary
def isfinite(x: Given, /) -> Result:
    """Whether x is neither infinite nor NaN."""
    return compute("isfinite", x)


@unary
def isinf(x: Given, /) -> Result:
    """Whether x is infinite."""
    return compute("isinf", x)


@unary
def isnan(x: Given, /) -> Result:
    """Whether x is NaN."""
    return compute("isnan", x)


@binary
def less(x: Given, y: Given, /) -> Result:
    """Whether x is less than y."""
    return compute("less", x, y)


@binary
def less_equal(x: Given, y: Given, /) -> Result:
    """Whether x is less than or equal to y."""
    return compute("less_equal", x, y)


@unary
def log(x: Given, /) -> Result:
    """Return the natural logarithm of x."""
    return compute("log", x)


@unary
def log10(x: Given, /) -> Result:
    """Return the logarithm of x to base 10."""
    return compute("log10", x)


@unary
def log1p(x: Given, /) -> Result:
    """Return log(1 + x), exact for small x."""
    return compute("log1p", x)


@unary
def log2(x: Given, /) -> Result:
    """Return the logarithm of x to base 2."""
    return compute("log2", x)


@binary
def logaddexp(x: Given, y: Given, /) -> Result:
    """Return log(exp(x) + exp(y)) without overflow on the way."""
    return compute("logaddexp", x, y)


@binary
def logical_and(x: Given, y: Given, /) -> Result:
    """Return x and y, for bools."""
    return compute("logical_and", x, y)


@unary
def logical_not(x: Given, /) -> Result:
    """Return not x, for bools."""
    return compute("logical_not", x)


@binary
def logical_or(x: Given, y: Given, /) -> Result:
    """Return x or y, for bools."""
    return compute("logical_or", x, y)


@binary
def logical_xor(x: Given, y: Given, /) -> Result:
    """Return whether one of x and y is true, for bools."""
    return compute("logical_xor", x, y)


@binary
def maximum(x: Given, y: Given, /) -> Result:
    """Return the greater of x and y; NaN wins."""
    return compute("maximum", x, y)


@binary
def minimum(x: Given, y: Given, /) -> Result:
    """Return the lesser of x and y; NaN wins."""
    return compute("minimum", x, y)


@binary
def multiply(x: Given, y: Given, /) -> Result:
    """Return x * y; and of bools."""
    return compute("multiply", x, y)


@unary
def negative(x: Given, /) -> Result:
    """Return -x."""
    return compute("negative", x)


@binary
def nextafter(x: Given, y: Given, /) -> Result:
    """Return the number beside x on the way to y, of their common floating-point type; y where both are equal."""
    if isinstance(x, Lazy) or isinstance(y, Lazy):
        return lazy(cast("Tensor", nextafter(_evaluated(x), _evaluated(y))))
    given = [_operand(one) for one in (x, y)]
    result = empty_like(cast("Tensor", compute("copysign", *given)))  # of the type and shape that both have together
    kind = result.dtype.numpy
    first, second = (np.asarray(one.plain() if isinstance(one, Tensor) else one).astype(kind) for one in given)
    result.array[...] = np.nextafter(first, second)
    result.mark_written()
    return result


@binary
def not_equal(x: Given, y: Given, /) -> Result:
    """Whether x is not equal to y."""
    return compute("not_equal", x, y)


@unary
def positive(x: Given, /) -> Result:
    """Return x, in a memory of its own."""
    return x if isinstance(x, Lazy) else _tensor(x).copy()


@binary
def pow(x: Given, y: Given, /) -> Result:
    """Return x to the power of y."""
    return compute("pow", x, y)


@unary
def real(x: Given, /) -> Result:
    """Return x, in a memory of its own: elements are real."""
    return positive(x)


@unary
def reciprocal(x: Given, /) -> Result:
    """Return 1 / x."""
    return compute("divide", 1, x)


@binary
def remainder(x: Given, y: Given, /) -> Result:
    """Return x - y * floor(x / y), which has the sign of y; an integer by 0 gives 0."""
    return compute("remainder", x, y)


@unary
def round(x: Given, /) -> Result:
    """Return the nearest whole number, the even one from the middle; integers stay."""
    return compute("round", x)


@unary
def sign(x: Given, /) -> Result:
    """Return -1, 0 or 1 by the sign of x; NaN stays."""
    return compute("sign", x)


@unary
def signbit(x: Given, /) -> Result:
    """Whether x is negative, -0.0 included."""
    return compute("signbit", x)


@unary
def sin(x: Given, /) -> Result:
    """Return the sine of x radians."""
    return compute("sin", x)


@unary
def sinh(x: Given, /) -> Result:
    """Return the hyperbolic sine of x."""
    return compute("sinh", x)


@unary
def sqrt(x: Given, /) -> Result:
    """Return the square root of x."""
    return compute("sqrt", x)


@unary
def square(x: Given, /) -> Result:
    """Return x * x."""
    return compute("square", x)


@binary
def subtract(x: Given, y: Given, /) -> Result:
    """Return x - y."""
    return compute("subtract", x, y)


@unary
def tan(x: Given, /) -> Result:
    """Return the tangent of x radians."""
    return compute("tan", x)


@unary
def tanh(x: Given, /) -> Result:
    """Return the hyperbolic tangent of x."""
    return compute("tanh", x)


@unary
def trunc(x: Given, /) -> Result:
    """Return x without its fraction; integers stay."""
    return compute("trunc", x)


@ternary
def where(condition: Given, x: Given, y: Given, /) -> Result:
    """Return the elements of x where the condition (bools) holds, else those of y."""
    return compute("where", condition, x, y)


def _evaluated(x: Given) -> Any:
    return x.evaluate() if isinstance(x, Lazy) else x


def _tensor(x: object) -> Tensor:
    found = _operand(x)
    return found if isinstance(found, Tensor) else Tensor.from_numpy(np.asarray(found))
