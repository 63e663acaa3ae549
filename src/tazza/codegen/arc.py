"""Arc functions of float32 numbers: their series near 0, and what leads there from elsewhere.

    atan(x) = pi/2 - atan(1 / x) beyond tan(3 pi/8), pi/4 + atan((x - 1) / (x + 1)) beyond tan(pi/8)
    asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) and acos(x) = 2 asin(sqrt((1 - x) / 2)) beyond 1/2

Series are cut where what is left is below 1e-9. Beyond -1 and 1 asin and acos are NaN.

Source: Abramowitz, Stegun 1964, 4.4.
"""

from __future__ import annotations

import math

from tazza.codegen.emit import Vector

ATAN = tuple((-1) ** k / (2 * k + 3) * -1.0 for k in range(10))
"""(atan(x) / x - 1) / x^2 in powers of x^2, on |x| <= tan(pi/8)."""
ASIN = tuple(math.comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(1, 14))
"""(asin(x) / x - 1) / x^2 in powers of x^2, on |x| <= 1/2."""
NEAR, FAR = math.tan(math.pi / 8), math.tan(3 * math.pi / 8)


def _series(v: Vector, x: str, coefficients: tuple[float, ...]) -> str:
    """Return x + x^3 P(x^2)."""
    square = v.mul(x, x)
    return v.fma(v.mul(x, square), v.polynomial(square, coefficients), x)


def atan(v: Vector, x: str) -> str:
    """One of three ranges, with the sign of x."""
    size, one = v.intrinsic("fabs", x), v.constant(1.0)
    far, middle = v.compare("ogt", size, v.constant(FAR)), v.compare("ogt", size, v.constant(NEAR))
    above = v.select(far, v.constant(-1.0), v.select(middle, v.sub(size, one), size))
    below = v.select(far, size, v.select(middle, v.add(size, one), one))
    start = v.select(far, v.constant(math.pi / 2), v.select(middle, v.constant(math.pi / 4), v.constant(0.0)))
    return v.copy_sign(v.add(start, _series(v, v.div(above, below), ATAN)), x)


def _parts(v: Vector, x: str) -> tuple[str, str]:
    """Return whether |x| > 1/2, and asin of |x| or of sqrt((1 - |x|) / 2)."""
    size = v.intrinsic("fabs", x)
    outside = v.compare("ogt", size, v.constant(0.5))
    root = v.intrinsic("sqrt", v.mul(v.sub(v.constant(1.0), size), v.constant(0.5)))
    return outside, _series(v, v.select(outside, root, size), ASIN)


def asin(v: Vector, x: str) -> str:
    """That of |x|, with the sign of x."""
    outside, part = _parts(v, x)
    far = v.fma(part, v.constant(-2.0), v.constant(math.pi / 2))
    return v.copy_sign(v.select(outside, far, part), x)


def acos(v: Vector, x: str) -> str:
    """pi/2 - asin(x) near 0, else twice the other part, or pi minus that."""
    outside, part = _parts(v, x)
    twice = v.add(part, part)
    negative = v.compare("olt", x, v.constant(0.0))
    far = v.select(negative, v.sub(v.constant(math.pi), twice), twice)
    near = v.sub(v.constant(math.pi / 2), v.copy_sign(part, x))
    return v.select(outside, far, near)
