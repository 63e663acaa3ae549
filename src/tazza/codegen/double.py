"""Logarithm, sine and cosine of float64 numbers in vectors: polynomials on a reduced range, within 1 ulp.

What the range leaves of an angle is kept in two numbers, so that sine and cosine are off by little more than their last
rounding. Callers see to it that logarithms are taken of positive normal numbers, and that angles are below 2^20.

The coefficients come from `tools/fit_polynomials.py`.
Source: Muller, Elementary Functions, 3rd edition, chapters 4 and 11 (range reduction after Cody and Waite).
"""

from __future__ import annotations

import math

from tazza.codegen.emit import Vector

LOG = (
    0.666666666666667, 0.39999999999899444, 0.2857142862600327, 0.22222211130259595, 0.18182889455690948,
    0.1533171061777565, 0.1461658542943859,
)  # fmt: skip
"""(log((1 + s) / (1 - s)) / s - 2) / s^2 in powers of s^2, for quotients in [sqrt(1/2), sqrt(2)]; error 1e-17."""
SIN = (
    -0.16666666666666666, 0.008333333333330925, -0.00019841269836722418, 2.755731608381636e-06, -2.50511279440138e-08,
    1.5917848524785488e-10,
)  # fmt: skip
"""(sin(r) / r - 1) / r^2 in powers of r^2 on |r| <= pi / 4; error 1e-17."""
COS = (
    0.041666666666666664, -0.0013888888888887382, 2.480158729874307e-05, -2.7557317260008837e-07,
    2.087614382799289e-09, -1.1382456778047061e-11,
)  # fmt: skip
"""(cos(r) - 1 + r^2 / 2) / r^4 in powers of r^2 on |r| <= pi / 4; error 5e-19."""

ROOT_HALF = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2)."""
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""ln(2) in two parts; the first has so few bits that its product with an exponent is exact."""
ROUND = 1.5 * 2.0**52
"""Added to a number, this leaves its nearest integer in the low bits."""
HALF_PI = (math.pi / 2, 6.123233995736766e-17, -1.4973849048591698e-33)
"""pi / 2 in three parts."""


def log(v: Vector, x: str) -> str:
    """Add the logarithms of m and 2^e, where x = 2^e m.

    That of m is f - f^2 / 2 + s (f^2 / 2 + R) with f = m - 1, s = f / (f + 2).
    """
    bits = v.bits_of(x)
    e = v.int_op("ashr", v.int_op("sub", bits, v.whole(ROOT_HALF)), v.whole(52))
    f = v.sub(v.of_bits(v.int_op("sub", bits, v.int_op("shl", e, v.whole(52)))), v.constant(1.0))
    exponent = v.lines.let(f"sitofp {v.integer} {e} to {v.type}")
    s = v.div(f, v.add(f, v.constant(2.0)))
    square = v.mul(s, s)
    half = v.mul(v.mul(f, f), v.constant(0.5))
    rest = v.mul(s, v.fma(square, v.polynomial(square, LOG), half))
    low = v.sub(half, v.fma(exponent, v.constant(LN2_LOW), rest))
    return v.fma(exponent, v.constant(LN2_HIGH), v.sub(f, low))


def sine_cosine(v: Vector, x: str) -> tuple[str, str]:
    """Sine and cosine of x = n pi / 2 + r + t, where t is what r lost; n says which is which, and their signs."""
    shifted = v.fma(x, v.constant(2 / math.pi), v.constant(ROUND))
    n = v.sub(shifted, v.constant(ROUND))
    high, middle, low = (v.constant(-part) for part in HALF_PI)
    first = v.intrinsic("fma", n, high, x)
    r = v.intrinsic("fma", n, middle, first)
    t = v.fma(n, low, v.intrinsic("fma", n, middle, v.sub(first, r)))
    return of_rest(v, r, t, v.bits_of(shifted))


def of_rest(v: Vector, r: str, t: str, turns: str) -> tuple[str, str]:
    """Sine and cosine of r + t, so many quarter turns on, of which the lowest bits count."""
    square = v.mul(r, r)
    sine = v.add(r, v.fma(v.mul(r, square), v.polynomial(square, SIN), t))
    half = v.mul(square, v.constant(0.5))
    near = v.sub(v.constant(1.0), half)
    lost = v.sub(v.sub(v.constant(1.0), near), half)
    rest = v.fma(v.mul(square, square), v.polynomial(square, COS), v.fma(v.neg(r), t, lost))
    cosine = v.add(near, rest)
    odd = v.lines.let(f"trunc {v.integer} {turns} to {v.mask}")
    return (
        _signed(v, v.select(odd, cosine, sine), turns),
        _signed(v, v.select(odd, sine, cosine), v.int_op("add", turns, v.whole(1))),
    )


def _signed(v: Vector, value: str, turns: str) -> str:
    """Return minus the value where the second bit of `turns` is set."""
    sign = v.int_op("shl", v.int_op("and", turns, v.whole(2)), v.whole(62))
    return v.of_bits(v.int_op("xor", v.bits_of(value), sign))
