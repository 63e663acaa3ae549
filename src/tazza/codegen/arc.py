"""Arc functions of float32 numbers: their series near 0, and what leads there from elsewhere.

    atan(x) = pi/2 - atan(1 / x) beyond tan(3 pi/8), pi/4 + atan((x - 1) / (x + 1)) beyond tan(pi/8)
    asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) and acos(x) = 2 asin(sqrt((1 - x) / 2)) beyond 1/2

Series are cut where what is left is below 1e-9. Beyond -1 and 1 asin and acos are NaN.

Source: Abramowitz, Stegun 1964, 4.4.
"""

from __future__ import annotations

import math

from tazza.codegen.term import Term

ATAN = tuple((-1) ** k / (2 * k + 3) * -1.0 for k in range(10))
"""(atan(x) / x - 1) / x^2 in powers of x^2, on |x| <= tan(pi/8)."""
ASIN = tuple(math.comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(1, 14))
"""(asin(x) / x - 1) / x^2 in powers of x^2, on |x| <= 1/2."""
NEAR, FAR = math.tan(math.pi / 8), math.tan(3 * math.pi / 8)


def _series(x: Term, coefficients: tuple[float, ...]) -> Term:
    """Return x + x^3 P(x^2)."""
    square = x * x
    return (x * square).fma(square.polynomial(coefficients), x)


def atan(x: Term) -> Term:
    """One of three ranges, with the sign of x."""
    size, one = abs(x), x.like(1.0)
    far, middle = size > FAR, size > NEAR
    above = far.choose(-1.0, middle.choose(size - one, size))
    below = far.choose(size, middle.choose(size + one, one))
    start = far.choose(math.pi / 2, middle.choose(x.like(math.pi / 4), 0.0))
    return (start + _series(above / below, ATAN)).copy_sign(x)


def _parts(x: Term) -> tuple[Term, Term]:
    """Return whether |x| > 1/2, and asin of |x| or of sqrt((1 - |x|) / 2)."""
    size = abs(x)
    outside = size > 0.5
    root = ((1.0 - size) * 0.5).intrinsic("sqrt")
    return outside, _series(outside.choose(root, size), ASIN)


def asin(x: Term) -> Term:
    """That of |x|, with the sign of x."""
    outside, part = _parts(x)
    far = part.fma(-2.0, math.pi / 2)
    return outside.choose(far, part).copy_sign(x)


def acos(x: Term) -> Term:
    """pi/2 - asin(x) near 0, else twice the other part, or pi minus that."""
    outside, part = _parts(x)
    twice = part + part
    negative = x < 0.0
    far = negative.choose(math.pi - twice, twice)
    near = math.pi / 2 - part.copy_sign(x)
    return outside.choose(far, near)
