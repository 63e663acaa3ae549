"""What follows from exponentials and logarithms, for kernels of a GPU: hyperbolic functions, other bases, hypot.

In float64, of those of `grid_math`, which are given; within 4 ulp. Of float32 they are rounded from these once.

Source: Kahan, as told in Higham, Accuracy and Stability of Numerical Algorithms, section 1.14 (exp(x) - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tazza.codegen.emit import Vector

Function = Callable[[Vector, str], str]
FAR = 2.0**28
"""From here on 1 is nothing beside the square of a number."""
LARGE = 709.0
"""Below, exponentials are finite."""
ROUND = 1.5 * 2.0**52


def expm1(exp: Function, log: Function) -> Function:
    """(u - 1) (x / log(u)) with u = exp(x), as it is rounded: the quotient makes good what that lost."""

    def write(v: Vector, x: str) -> str:
        one, u = v.constant(1.0), exp(v, x)
        less = v.sub(u, one)
        value = v.mul(less, v.div(x, log(v, u)))
        value = v.select(v.compare("oeq", u, one), x, value)
        value = v.select(v.compare("oeq", u, v.constant(math.inf)), u, value)
        return v.select(v.compare("oeq", less, v.constant(-1.0)), less, value)

    return write


def tanh(expm1: Function) -> Function:
    """Return t / (t + 2) with t = exp(2 |x|) - 1."""

    def write(v: Vector, x: str) -> str:
        size = v.ceiling(v.intrinsic("fabs", x), 22.0)
        t = expm1(v, v.add(size, size))
        return v.copy_sign(v.div(t, v.add(t, v.constant(2.0))), x)

    return write


def _large(v: Vector, exp: Function, size: str) -> str:
    """Return exp(|x|) / 2 where exp(|x|) itself may be infinite."""
    root = exp(v, v.mul(size, v.constant(0.5)))
    return v.mul(v.mul(root, v.constant(0.5)), root)


def sinh(exp: Function, expm1: Function) -> Function:
    """(t + t / (t + 1)) / 2 with t = exp(|x|) - 1."""

    def write(v: Vector, x: str) -> str:
        size = v.intrinsic("fabs", x)
        t = expm1(v, size)
        near = v.mul(v.add(t, v.div(t, v.add(t, v.constant(1.0)))), v.constant(0.5))
        far = v.compare("ogt", size, v.constant(LARGE))
        return v.copy_sign(v.select(far, _large(v, exp, size), near), x)

    return write


def cosh(exp: Function) -> Function:
    """(u + 1 / u) / 2 with u = exp(|x|)."""

    def write(v: Vector, x: str) -> str:
        size = v.intrinsic("fabs", x)
        u = exp(v, size)
        near = v.mul(v.add(u, v.div(v.constant(1.0), u)), v.constant(0.5))
        return v.select(v.compare("ogt", size, v.constant(LARGE)), _large(v, exp, size), near)

    return write


def asinh(log: Function, log1p: Function) -> Function:
    """log(1 + a + a^2 / (1 + sqrt(a^2 + 1))) with a = |x|."""

    def write(v: Vector, x: str) -> str:
        one, size = v.constant(1.0), v.intrinsic("fabs", x)
        a = v.ceiling(size, FAR)
        square = v.mul(a, a)
        root = v.intrinsic("sqrt", v.add(square, one))
        near = log1p(v, v.add(a, v.div(square, v.add(one, root))))
        far = v.add(log(v, size), v.constant(math.log(2)))
        return v.copy_sign(v.select(v.compare("ogt", size, v.constant(FAR)), far, near), x)

    return write


def acosh(log: Function, log1p: Function) -> Function:
    """log(1 + t + sqrt(t (t + 2))) with t = x - 1; NaN below 1."""

    def write(v: Vector, x: str) -> str:
        t = v.sub(v.ceiling(x, FAR), v.constant(1.0))
        near = log1p(v, v.add(t, v.intrinsic("sqrt", v.mul(t, v.add(t, v.constant(2.0))))))
        far = v.add(log(v, x), v.constant(math.log(2)))
        value = v.select(v.compare("ogt", x, v.constant(FAR)), far, near)
        return v.select(v.compare("oge", x, v.constant(1.0)), value, v.constant(math.nan))

    return write


def atanh(log1p: Function) -> Function:
    """log(1 + 2 a / (1 - a)) / 2 with a = |x|."""

    def write(v: Vector, x: str) -> str:
        a = v.intrinsic("fabs", x)
        value = log1p(v, v.div(v.add(a, a), v.sub(v.constant(1.0), a)))
        return v.copy_sign(v.mul(value, v.constant(0.5)), x)

    return write


def logarithm(log: Function, base: float) -> Function:
    """log(x) / log(base)."""
    return lambda v, x: v.div(log(v, x), v.constant(math.log(base)))


def exp2(exp: Function) -> Function:
    """exp(r ln(2)) 2^n with x = n + r."""

    def write(v: Vector, x: str) -> str:
        limited = v.floor_at(v.ceiling(x, 1025.0), -1080.0)
        whole, n = rounded(v, limited)
        return scaled(v, exp(v, v.mul(v.sub(limited, n), v.constant(math.log(2)))), whole)

    return write


def rounded(v: Vector, x: str) -> tuple[str, str]:
    """Return the whole number next to x, of at most 2^51, as one and in float64."""
    shifted = v.add(x, v.constant(ROUND))
    whole = v.int_op("sub", v.bits_of(shifted), v.bits_of(v.constant(ROUND)))
    return whole, v.sub(shifted, v.constant(ROUND))


def scaled(v: Vector, value: str, whole: str) -> str:
    """Return value 2^whole, made in two parts, so that the power need not be a number itself."""
    half = v.int_op("ashr", whole, v.whole(1))
    for part in (half, v.int_op("sub", whole, half)):
        value = v.mul(value, v.of_bits(v.int_op("shl", v.int_op("add", part, v.whole(1023)), v.whole(52))))
    return value


def hypot(v: Vector, x: str, y: str) -> str:
    """Return m sqrt(1 + (n / m)^2), where m is the larger size and n the smaller one; infinite where one is."""
    a, b = v.intrinsic("fabs", x), v.intrinsic("fabs", y)
    above = v.compare("ogt", a, b)
    m, n = v.select(above, a, b), v.select(above, b, a)
    q = v.div(n, m)
    value = v.mul(m, v.intrinsic("sqrt", v.fma(q, q, v.constant(1.0))))
    value = v.select(v.compare("oeq", v.add(a, b), v.constant(0.0)), m, value)
    for one in (a, b):
        infinite = v.constant(math.inf)
        value = v.select(v.compare("oeq", one, infinite), infinite, value)
    return value
