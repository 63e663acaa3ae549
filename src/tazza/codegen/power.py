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

from tazza.codegen.emit import Vector
from tazza.tensor import DataType

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


def power(v: Vector, x: str, y: str) -> str:
    """Return x^y."""
    wide = Vector(v.lines, v.count, DataType.DOUBLE)
    base, exponent = (v.lines.let(f"fpext {v.type} {one} to {wide.type}") for one in (x, y))
    t = wide.mul(exponent, _log2(wide, base))
    t = wide.floor_at(wide.ceiling(t, HIGHEST), LOWEST)
    value = v.lines.let(f"fptrunc {wide.type} {_exp2(wide, t)} to {v.type}")
    return v.rare(_unusual(v, x, y), value, "powf", x, y)


def _unusual(v: Vector, x: str, y: str) -> str:
    """Return the mask of what libm computes."""
    infinity = v.constant(math.inf)
    positive = v.lines.let(f"and {v.mask} {v.compare('ogt', x, v.constant(0.0))}, {v.compare('olt', x, infinity)}")
    usual = v.lines.let(f"and {v.mask} {positive}, {v.compare('olt', v.intrinsic('fabs', y), infinity)}")
    return v.lines.let(f"xor {v.mask} {usual}, {v.all_set}")


def _log2(wide: Vector, x: str) -> str:
    """Return log2 of positive float64 numbers that are not denormal."""
    bits = wide.bits_of(x)
    e = wide.int_op("ashr", wide.int_op("sub", bits, wide.whole(ROOT_HALF)), wide.whole(52))
    m = wide.of_bits(wide.int_op("sub", bits, wide.int_op("shl", e, wide.whole(52))))
    one = wide.constant(1.0)
    s = wide.div(wide.sub(m, one), wide.add(m, one))
    whole = wide.lines.let(f"sitofp {wide.integer} {e} to {wide.type}")
    return wide.fma(s, wide.polynomial(wide.mul(s, s), LOG2), whole)


def _exp2(wide: Vector, t: str) -> str:
    """Return 2^t for |t| up to some hundreds."""
    shifted = wide.add(t, wide.constant(ROUND))
    n = wide.int_op("sub", wide.bits_of(shifted), wide.bits_of(wide.constant(ROUND)))
    fraction = wide.polynomial(wide.sub(t, wide.sub(shifted, wide.constant(ROUND))), EXP2)
    scale = wide.of_bits(wide.int_op("shl", wide.int_op("add", n, wide.whole(1023)), wide.whole(52)))
    return wide.mul(fraction, scale)


def cubic_root(v: Vector, x: str) -> str:
    """Return the cubic root of x."""
    wide = Vector(v.lines, v.count, DataType.DOUBLE)
    size = v.intrinsic("fabs", x)
    long = v.lines.let(f"fpext {v.type} {size} to {wide.type}")
    half = wide.int_op("lshr", wide.bits_of(long), wide.whole(32))
    third = wide.int_op("lshr", wide.int_op("mul", half, wide.whole(THIRD)), wide.whole(32))
    root = wide.of_bits(wide.int_op("shl", wide.int_op("sub", wide.whole(ROOT), third), wide.whole(32)))
    for _ in range(2):
        square = wide.mul(root, root)
        missing = wide.sub(wide.constant(1.0), wide.mul(wide.mul(long, root), square))
        root = wide.mul(root, wide.polynomial(missing, INVERSE_ROOT))
    value = v.lines.let(f"fptrunc {wide.type} {wide.mul(long, wide.mul(root, root))} to {v.type}")
    finite = v.compare("olt", size, v.constant(math.inf))
    return v.select(finite, v.copy_sign(value, x), x)
