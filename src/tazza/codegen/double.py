"""Logarithm, sine and cosine of float64 numbers in vectors: polynomials on a reduced range, within 1 ulp.

What the range leaves of an angle is kept in two numbers, so that sine and cosine are off by little more than their last
rounding. Callers see to it that logarithms are taken of positive normal numbers, and that angles are below 2^20.

The coefficients come from `tools/fit_polynomials.py`.
Source: Muller, Elementary Functions, 3rd edition, chapters 4 and 11 (range reduction after Cody and Waite).
"""

from __future__ import annotations

import math

from tazza.codegen.term import Term

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


def log(x: Term) -> Term:
    """Add the logarithms of m and 2^e, where x = 2^e m.

    That of m is f - f^2 / 2 + s (f^2 / 2 + R) with f = m - 1, s = f / (f + 2).
    """
    bits = x.as_bits()
    e = (bits - ROOT_HALF) >> 52
    f = (bits - (e << 52)).as_floats() - 1.0
    exponent = e.to("double")
    s = f / (f + 2.0)
    square = s * s
    half = f * f * 0.5
    rest = s * square.fma(square.polynomial(LOG), half)
    low = half - exponent.fma(LN2_LOW, rest)
    return exponent.fma(LN2_HIGH, f - low)


def sine_cosine(x: Term) -> tuple[Term, Term]:
    """Sine and cosine of x = n pi / 2 + r + t, where t is what r lost; n says which is which, and their signs."""
    shifted = x.fma(2 / math.pi, ROUND)
    n = shifted - ROUND
    high, middle, low = (-part for part in HALF_PI)
    first = n.intrinsic("fma", high, x)
    r = n.intrinsic("fma", middle, first)
    t = n.fma(low, n.intrinsic("fma", middle, first - r))
    return of_rest(r, t, shifted.as_bits())


def of_rest(r: Term, t: Term, turns: Term) -> tuple[Term, Term]:
    """Sine and cosine of r + t, so many quarter turns on, of which the lowest bits count."""
    square = r * r
    sine = r + (r * square).fma(square.polynomial(SIN), t)
    half = square * 0.5
    near = 1.0 - half
    lost = 1.0 - near - half
    rest = (square * square).fma(square.polynomial(COS), (-r).fma(t, lost))
    cosine = near + rest
    odd = turns.to("i1")
    return (
        _signed(odd.choose(cosine, sine), turns),
        _signed(odd.choose(sine, cosine), turns + 1),
    )


def _signed(value: Term, turns: Term) -> Term:
    """Return minus the value where the second bit of `turns` is set."""
    sign = (turns & 2) << 62
    return (value.as_bits() ^ sign).as_floats()
