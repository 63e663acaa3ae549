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
from tazza.codegen.emit import Vector
from tazza.tensor import DataType

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

Reduced = tuple[str, str]
"""What is left of x, and how many quarter turns were subtracted, as integers of which the lowest bits are right."""


def _reduced(v: Vector, x: str) -> Reduced:
    shifted = v.fma(x, v.constant(2 / math.pi), v.constant(ROUND_32))
    n = v.sub(shifted, v.constant(ROUND_32))
    r = x
    for part in HALF_PI_32:
        r = v.intrinsic("fma", n, v.constant(-part), r)
    return r, v.bits_of(shifted)


def _reduced_by_64(v: Vector, x: str) -> Reduced:
    lines, wide = v.lines, Vector(v.lines, v.count, DataType.DOUBLE)
    left = lines.let(f"fpext {v.type} {x} to {wide.type}")
    shifted = wide.add(wide.mul(left, wide.constant(2 / math.pi)), wide.constant(ROUND_64))
    n = wide.sub(shifted, wide.constant(ROUND_64))
    for part in HALF_PI_64:
        left = wide.intrinsic("fma", n, wide.constant(-part), left)
    turns = lines.let(f"trunc {wide.integer} {wide.bits_of(shifted)} to {v.integer}")
    return lines.let(f"fptrunc {wide.type} {left} to {v.type}"), turns


def _function(of: Callable[[Vector, str, str], str], name: str) -> Callable[[Vector, str], str]:
    """Return the function that `of` makes of what is left of x and the turns; `name` is libm's."""

    def emit(v: Vector, x: str) -> str:
        size = v.intrinsic("fabs", x)

        def large() -> str:
            value = of(v, *_reduced_by_64(v, x))
            return v.rare(v.compare("ogt", size, v.constant(LARGEST_ANGLE)), value, name, x)

        value = of(v, *_reduced(v, x))
        return v.rarely(v.compare("ogt", size, v.constant(SMALL_ANGLE)), value, large)

    return emit


def _wave(quarter_turns: int) -> Callable[[Vector, str, str], str]:
    """Sine (0) or cosine (1)."""

    def of(v: Vector, r: str, turns: str) -> str:
        if quarter_turns:
            turns = v.int_op("add", turns, v.whole(quarter_turns))
        s = v.mul(r, r)
        sine = v.fma(v.mul(r, s), v.polynomial(s, SIN), r)
        cosine = v.fma(v.mul(s, s), v.polynomial(s, COS), v.fma(s, v.constant(-0.5), v.constant(1.0)))
        odd = v.lines.let(f"trunc {v.integer} {turns} to {v.mask}")
        sign = v.int_op("shl", v.int_op("and", turns, v.whole(2)), v.whole(30))
        return v.of_bits(v.int_op("xor", v.bits_of(v.select(odd, cosine, sine)), sign))

    return of


def _tangent(v: Vector, r: str, turns: str) -> str:
    s = v.mul(r, r)
    value = v.fma(v.mul(r, s), v.polynomial(s, TAN), r)
    turned = avx512.reciprocal(v, value) if avx512.fits(v) else v.div(v.constant(1.0), value)
    return v.select(v.lines.let(f"trunc {v.integer} {turns} to {v.mask}"), v.neg(turned), value)


sin = _function(_wave(0), "sinf")
cos = _function(_wave(1), "cosf")
tan = _function(_tangent, "tanf")
