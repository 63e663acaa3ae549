"""Sine, cosine and tangent of float32 numbers: x minus a multiple of pi/2, then polynomials.

Up to 2^15 the multiple is subtracted in three parts in float32: the first difference is exact. Beyond, in float64, and
from 2^40 on libm is asked.

The coefficients come from `tools/fit_polynomials.py`.
Source: Muller, Elementary Functions, 3rd edition, chapter 11 (range reduction after Cody and Waite).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tazza.codegen import avx512
from tazza.codegen.term import Term

SIN = (-0.1666666716337204, 0.008333329111337662, -0.00019839295418933034, 2.7179398878937803e-06)
"""(sin(r) / r - 1) / r^2 in powers of r^2 on |r| <= pi / 4; error 5e-12."""
COS = (0.04166664555668831, -0.0013887337408959866, 2.443484299874399e-05)
"""(cos(r) - 1 + r^2 / 2) / r^4 in powers of r^2 on |r| <= pi / 4; error 1e-10."""
TAN = (
    0.3333335220813751, 0.13332554697990417, 0.0540718138217926, 0.021222135052084923, 0.010988683439791203,
    -0.00010144259431399405, 0.004469367675483227,
)  # fmt: skip
"""(tan(r) / r - 1) / r^2 in powers of r^2 on |r| <= pi / 4; error 2e-9."""

ROUND_32, ROUND_64 = 1.5 * 2.0**23, 1.5 * 2.0**52
"""Added to a number, these leave its nearest integer in the low bits."""
HALF_PI_32 = (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15)
HALF_PI_64 = (math.pi / 2, 6.123233995736766e-17)
"""pi / 2 in parts, all above 0: so that -0 stays what it is."""
SMALL_ANGLE, LARGEST_ANGLE = 2.0**15, 2.0**40

Reduced = tuple[Term, Term]
"""What is left of x, and how many quarter turns were subtracted, as integers of which the lowest bits are right."""


def _reduced(x: Term) -> Reduced:
    shifted = x.fma(2 / math.pi, ROUND_32)
    n = shifted - ROUND_32
    r = x
    for part in HALF_PI_32:
        r = n.intrinsic("fma", -part, r)
    return r, shifted.as_bits()


def _reduced_by_64(x: Term) -> Reduced:
    left = x.to("double")
    shifted = left * (2 / math.pi) + ROUND_64
    n = shifted - ROUND_64
    for part in HALF_PI_64:
        left = n.intrinsic("fma", -part, left)
    turns = shifted.as_bits().to(f"i{x.bits}")
    return left.to(x.scalar), turns


def _function(of: Callable[[Term, Term], Term], name: str) -> Callable[[Term], Term]:
    """Return the function that `of` makes of what is left of x and the turns; `name` is libm's."""

    def emit(x: Term) -> Term:
        size = abs(x)

        def large() -> Term:
            value = of(*_reduced_by_64(x))
            return (size > LARGEST_ANGLE).rarely(lambda: x.each(name), value)

        value = of(*_reduced(x))
        return (size > SMALL_ANGLE).rarely(large, value)

    return emit


def _wave(quarter_turns: int) -> Callable[[Term, Term], Term]:
    """Sine (0) or cosine (1)."""

    def of(r: Term, turns: Term) -> Term:
        if quarter_turns:
            turns = turns + quarter_turns
        s = r * r
        sine = (r * s).fma(s.polynomial(SIN), r)
        cosine = (s * s).fma(s.polynomial(COS), s.fma(-0.5, 1.0))
        odd = turns.to("i1")
        sign = (turns & 2) << 30
        return (odd.choose(cosine, sine).as_bits() ^ sign).as_floats()

    return of


def _tangent(r: Term, turns: Term) -> Term:
    s = r * r
    value = (r * s).fma(s.polynomial(TAN), r)
    turned = avx512.reciprocal(value) if avx512.fits(value) else 1.0 / value
    return turns.to("i1").choose(-turned, value)


sin = _function(_wave(0), "sinf")
cos = _function(_wave(1), "cosf")
tan = _function(_tangent, "tanf")
