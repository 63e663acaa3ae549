"""What follows from exponentials and logarithms, for kernels of a GPU: hyperbolic functions, other bases, hypot.

In float64, of those of `grid_math`, which are given; within 4 ulp. Of float32 they are rounded from these once.

Source: Kahan, as told in Higham, Accuracy and Stability of Numerical Algorithms, section 1.14 (exp(x) - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tazza.codegen.term import Term

Function = Callable[[Term], Term]
FAR = 2.0**28
"""From here on 1 is nothing beside the square of a number."""
LARGE = 709.0
"""Below, exponentials are finite."""
ROUND = 1.5 * 2.0**52


def expm1(exp: Function, log: Function) -> Function:
    """(u - 1) (x / log(u)) with u = exp(x), as it is rounded: the quotient makes good what that lost."""

    def write(x: Term) -> Term:
        u = exp(x)
        less = u - 1.0
        value = less * (x / log(u))
        value = u.equals(1.0).choose(x, value)
        value = u.equals(math.inf).choose(u, value)
        return less.equals(-1.0).choose(less, value)

    return write


def tanh(expm1: Function) -> Function:
    """Return t / (t + 2) with t = exp(2 |x|) - 1."""

    def write(x: Term) -> Term:
        size = abs(x).at_most(22.0)
        t = expm1(size + size)
        return (t / (t + 2.0)).copy_sign(x)

    return write


def _large(exp: Function, size: Term) -> Term:
    """Return exp(|x|) / 2 where exp(|x|) itself may be infinite."""
    root = exp(size * 0.5)
    return root * 0.5 * root


def sinh(exp: Function, expm1: Function) -> Function:
    """(t + t / (t + 1)) / 2 with t = exp(|x|) - 1."""

    def write(x: Term) -> Term:
        size = abs(x)
        t = expm1(size)
        near = (t + t / (t + 1.0)) * 0.5
        return (size > LARGE).choose(_large(exp, size), near).copy_sign(x)

    return write


def cosh(exp: Function) -> Function:
    """(u + 1 / u) / 2 with u = exp(|x|)."""

    def write(x: Term) -> Term:
        size = abs(x)
        u = exp(size)
        near = (u + 1.0 / u) * 0.5
        return (size > LARGE).choose(_large(exp, size), near)

    return write


def asinh(log: Function, log1p: Function) -> Function:
    """log(1 + a + a^2 / (1 + sqrt(a^2 + 1))) with a = |x|."""

    def write(x: Term) -> Term:
        size = abs(x)
        a = size.at_most(FAR)
        square = a * a
        root = (square + 1.0).intrinsic("sqrt")
        near = log1p(a + square / (1.0 + root))
        far = log(size) + math.log(2)
        return (size > FAR).choose(far, near).copy_sign(x)

    return write


def acosh(log: Function, log1p: Function) -> Function:
    """log(1 + t + sqrt(t (t + 2))) with t = x - 1; NaN below 1."""

    def write(x: Term) -> Term:
        t = x.at_most(FAR) - 1.0
        near = log1p(t + (t * (t + 2.0)).intrinsic("sqrt"))
        far = log(x) + math.log(2)
        value = (x > FAR).choose(far, near)
        return (x >= 1.0).choose(value, math.nan)

    return write


def atanh(log1p: Function) -> Function:
    """log(1 + 2 a / (1 - a)) / 2 with a = |x|."""

    def write(x: Term) -> Term:
        a = abs(x)
        return (log1p((a + a) / (1.0 - a)) * 0.5).copy_sign(x)

    return write


def logarithm(log: Function, base: float) -> Function:
    """log(x) / log(base)."""
    return lambda x: log(x) / math.log(base)


def exp2(exp: Function) -> Function:
    """exp(r ln(2)) 2^n with x = n + r."""

    def write(x: Term) -> Term:
        limited = x.at_most(1025.0).at_least(-1080.0)
        whole, n = rounded(limited)
        return scaled(exp((limited - n) * math.log(2)), whole)

    return write


def rounded(x: Term) -> tuple[Term, Term]:
    """Return the whole number next to x, of at most 2^51, as one and in float64."""
    shifted = x + ROUND
    return shifted.as_bits() - x.lines.number(ROUND, x.type).as_bits(), shifted - ROUND


def scaled(value: Term, whole: Term) -> Term:
    """Return value 2^whole, made in two parts, so that the power need not be a number itself."""
    half = whole >> 1
    for part in (half, whole - half):
        value *= ((part + 1023) << 52).as_floats()
    return value


def hypot(x: Term, y: Term) -> Term:
    """Return m sqrt(1 + (n / m)^2), where m is the larger size and n the smaller one; infinite where one is."""
    a, b = abs(x), abs(y)
    above = a > b
    m, n = above.choose(a, b), above.choose(b, a)
    q = n / m
    value = m * q.fma(q, 1.0).intrinsic("sqrt")
    value = (a + b).equals(0.0).choose(m, value)
    for one in (a, b):
        value = one.equals(math.inf).choose(math.inf, value)
    return value
