"""Powers and cubic roots of float32 numbers, computed in float64, so that nothing is lost where exponents are large.

A power is 2^(y log2(x)).

log2 of a mantissa m in [sqrt(1/2), sqrt(2)] is that of (1 + s) / (1 - s) for s = (m - 1) / (m + 1), |s| < 0.172: the
series 2 s (1 + s^2 / 3 + s^4 / 5 + ...), of which what is left out after s^12 / 13 is below 2e-12. 2^r on
|r| <= 1/2 is the series of exp(r ln(2)) up to its ninth power, with an error below 1e-11. Both are far below half of a
unit of float32 in the last place. What is no positive finite base, or no finite exponent, is libm's.

A cubic root of x is x r^2, for r = x^(-1/3). The bits of x, divided by 3, give r within 4 %. What is missing,
e = 1 - x r^3, makes it r (1 - e)^(-1/3), of whose series the first four terms are taken, twice: e is 0.1, 5e-5, 1e-16.

Source: Muller, Elementary Functions, 3rd edition, chapter 3 (series), chapter 11 (reduction).
"""

from __future__ import annotations

import math

from tazza.codegen.term import Term

LOG2 = tuple(2 / math.log(2) / (2 * k + 1) for k in range(7))
"""log2((1 + s) / (1 - s)) / s in powers of s^2."""
EXP2 = tuple(math.log(2) ** k / math.factorial(k) for k in range(10))
"""2^r in powers of r."""
ROOT_HALF = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2) in float64."""
LOWEST, HIGHEST = -200.0, 200.0
"""Beyond, 2^t is 0 or infinite in float32."""
ROOT = 1430186989
"""The upper half of the bits of x^(-1/3), plus a third of those of x: what leaves the least e behind one turn."""
INVERSE_ROOT = (1.0, 1 / 3, 2 / 9, 14 / 81)
"""(1 - e)^(-1/3) in powers of e."""
THIRD = 0x55555556
"""2^32 / 3: times a number below 2^31, a third of it is the upper half."""
ROUND = 1.5 * 2.0**52
"""Added to a number, this leaves its nearest integer in the low bits."""


def power(x: Term, y: Term) -> Term:
    """Return x^y."""
    base, exponent = x.to("double"), y.to("double")
    t = exponent * _log2(base)
    t = t.at_most(HIGHEST).at_least(LOWEST)
    value = _exp2(t).to(x.scalar)
    return _unusual(x, y).rarely(lambda: x.each("powf", y), value)


def _unusual(x: Term, y: Term) -> Term:
    """Return the mask of what libm computes."""
    positive = (x > 0.0) & (x < math.inf)
    return ~(positive & (abs(y) < math.inf))


def _log2(x: Term) -> Term:
    """Return log2 of positive float64 numbers that are not denormal."""
    bits = x.as_bits()
    e = (bits - ROOT_HALF) >> 52
    m = (bits - (e << 52)).as_floats()
    s = (m - 1.0) / (m + 1.0)
    whole = e.to("double")
    return s.fma((s * s).polynomial(LOG2), whole)


def _exp2(t: Term) -> Term:
    """Return 2^t for |t| up to some hundreds."""
    shifted = t + ROUND
    n = shifted.as_bits() - t.like(ROUND).as_bits()
    fraction = (t - (shifted - ROUND)).polynomial(EXP2)
    scale = ((n + 1023) << 52).as_floats()
    return fraction * scale


def cubic_root(x: Term) -> Term:
    """Return the cubic root of x."""
    size = abs(x)
    long = size.to("double")
    half = long.as_bits().shifted_down(32)
    third = (half * THIRD).shifted_down(32)
    root = ((ROOT - third) << 32).as_floats()
    for _ in range(2):
        square = root * root
        missing = 1.0 - long * root * square
        root = root * missing.polynomial(INVERSE_ROOT)
    value = (long * (root * root)).to(x.scalar)
    finite = size < math.inf
    return finite.choose(value.copy_sign(x), x)
