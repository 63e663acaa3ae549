"""Sine, cosine and tangent of float64 numbers of any size, for kernels of a GPU: within 1 ulp, the tangent within 2.

x = M * 2^E with a whole M. Of the product of x and 2 / pi a whole multiple of four does not count, so 192 bits of
2 / pi are enough, from where their product with M and 2^E begins to be smaller than four. The product of these is
whole, in three words; its upper two bits are quarter turns, and what follows is what is left of x, in quarter turns.

Source: Payne, Hanek 1983, Radian reduction for trigonometric functions.
"""

from __future__ import annotations

import itertools
import math

from tazza.codegen.double import HALF_PI, of_rest, sine_cosine
from tazza.codegen.loop import chosen
from tazza.codegen.term import Term

WORDS = 22
"""Of 2 / pi that numbers up to 2^1024 need, 64 bits each; those before its first bit are 0."""
BEFORE = 1
"""How many words these are."""
TABLE = "two.over.pi"
LARGE = 2.0
"""From here on what is left of an angle is found so: it may be much smaller than any of the three parts of pi / 2."""
_GUARD = 64


def _pi_bits(bits: int) -> int:
    """Return pi * 2^bits, rounded down or nearly so, by Machin's formula.

    >>> _pi_bits(8) / 2**8
    3.140625
    """
    one = 1 << (bits + _GUARD)

    def arctangent(n: int) -> int:
        """Return atan(1 / n) * one."""
        power, total, k = one // n, 0, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power, k = power // (n * n), k + 2
        return total

    return (4 * (4 * arctangent(5) - arctangent(239))) >> _GUARD


def _words() -> list[int]:
    """Return the words of 2 / pi behind its point, the most significant first."""
    bits = 64 * (WORDS - BEFORE)
    fraction = (2 << (2 * bits)) // _pi_bits(bits)
    return [0] * BEFORE + [(fraction >> (bits - 64 * (k + 1))) & ((1 << 64) - 1) for k in range(WORDS - BEFORE)]


def table() -> str:
    """Return the global that functions of large angles read."""
    numbers = ", ".join(f"i64 {word}" for word in _words())
    return f"@{TABLE} = internal addrspace(4) constant [{WORDS} x i64] [{numbers}]"


def _window(place: Term) -> list[Term]:
    """Return 192 bits of the table from a place on, as three words."""
    first, shift = place.shifted_down(6), place & 63
    start = place.lines.let("ptr", f"addrspacecast ptr addrspace(4) @{TABLE} to ptr").of("i64")
    found = [start[first + k] for k in range(4)]
    return [one.intrinsic("fshl", behind, shift) for one, behind in itertools.pairwise(found)]


def _product(M: Term, window: list[Term]) -> tuple[Term, Term]:
    """Return the upper two of the three words of M times the window, which may lose what is above them."""
    wide = M.to_unsigned("i128")
    high, middle, low = (word.to_unsigned("i128") for word in window)
    carried = (wide * low).shifted_down(64)
    second = wide * middle + carried
    first = wide * high + second.shifted_down(64)
    return first.to("i64"), second.to("i64")


def _reduced(x: Term) -> tuple[Term, Term, Term]:
    """Return r, t and quarter turns of a large x >= 0, where r + t is what is left of it."""
    bits = x.as_bits().lane(0)
    M = (bits & ((1 << 52) - 1)) | (1 << 52)
    E = bits.shifted_down(52) - 1075
    high, low = _product(M, _window(E + (64 * BEFORE - 2)))
    turns = (high + (1 << 61)).shifted_down(62)
    left = high - (turns << 62)
    # Each part has so few bits that it is a float64; the third one is too small to count beside the others' roundings.
    upper = (left + (1 << 31)) & -(1 << 32)
    parts = (upper.to("double"), -62), ((left - upper).to("double"), -62), (low.to_unsigned("double"), -126)
    a, b, c = (part.splat(1) * 2.0**power for part, power in parts)
    tail = b + c
    s = a + tail
    lost = tail - (s - a)
    r = s * HALF_PI[0]
    rest = lost.fma(HALF_PI[0], s * HALF_PI[1])
    t = s.intrinsic("fma", HALF_PI[0], -r) + rest
    whole = r + t
    return whole, t - (whole - r), x.lines.poison("<1 x i64>").with_lane(0, turns)


def waves(x: Term) -> tuple[Term, Term]:
    """Return sine and cosine of one number; NaN where it is not finite."""
    size = abs(x)

    def far() -> list[Term]:
        finite = size < math.inf
        found = of_rest(*_reduced(finite.choose(size, LARGE)))
        return [finite.choose(one, math.nan) for one in found]

    sine, cosine = chosen((size >= LARGE).lane(0), far, lambda: sine_cosine(size))
    sign = x.as_bits() & -(1 << 63)
    return (sine.as_bits() ^ sign).as_floats(), cosine


def sine(x: Term) -> Term:
    """Write sin(x)."""
    return waves(x)[0]


def cosine(x: Term) -> Term:
    """Write cos(x)."""
    return waves(x)[1]


def tangent(x: Term) -> Term:
    """Write tan(x)."""
    sine, cosine = waves(x)
    return sine / cosine
