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
from tazza.codegen.emit import Lines, Vector

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

    return 4 * (4 * arctangent(5) - arctangent(239)) >> _GUARD


def _words() -> list[int]:
    """Return the words of 2 / pi behind its point, the most significant first."""
    bits = 64 * (WORDS - BEFORE)
    fraction = (2 << (2 * bits)) // _pi_bits(bits)
    return [0] * BEFORE + [fraction >> (bits - 64 * (k + 1)) & (1 << 64) - 1 for k in range(WORDS - BEFORE)]


def table() -> str:
    """Return the global that functions of large angles read."""
    numbers = ", ".join(f"i64 {word}" for word in _words())
    return f"@{TABLE} = internal addrspace(4) constant [{WORDS} x i64] [{numbers}]"


def _window(lines: Lines, place: str) -> list[str]:
    """Return 192 bits of the table from a place on, as three words."""
    first, shift = lines.let(f"lshr i64 {place}, 6"), lines.let(f"and i64 {place}, 63")
    lines.declare("i64 @llvm.fshl.i64(i64, i64, i64)")
    start = lines.let(f"addrspacecast ptr addrspace(4) @{TABLE} to ptr")
    found: list[str] = []
    for k in range(4):
        at = lines.let(f"getelementptr i64, ptr {start}, i64 {lines.let(f'add i64 {first}, {k}')}")
        found.append(lines.let(f"load i64, ptr {at}"))
    return [
        lines.let(f"call i64 @llvm.fshl.i64(i64 {one}, i64 {behind}, i64 {shift})")
        for one, behind in itertools.pairwise(found)
    ]


def _product(lines: Lines, M: str, window: list[str]) -> tuple[str, str]:
    """Return the upper two of the three words of M times the window, which may lose what is above them."""
    wide = lines.let(f"zext i64 {M} to i128")
    high, middle, low = (lines.let(f"zext i64 {word} to i128") for word in window)
    carried = lines.let(f"lshr i128 {lines.let(f'mul i128 {wide}, {low}')}, 64")
    second = lines.let(f"add i128 {lines.let(f'mul i128 {wide}, {middle}')}, {carried}")
    first = lines.let(f"add i128 {lines.let(f'mul i128 {wide}, {high}')}, {lines.let(f'lshr i128 {second}, 64')}")
    return lines.let(f"trunc i128 {first} to i64"), lines.let(f"trunc i128 {second} to i64")


def _reduced(v: Vector, x: str) -> tuple[str, str, str]:
    """Return r, t and quarter turns of a large x >= 0, where r + t is what is left of it."""
    lines = v.lines
    bits = lines.let(f"extractelement {v.integer} {v.bits_of(x)}, i32 0")
    M = lines.let(f"or i64 {lines.let(f'and i64 {bits}, {(1 << 52) - 1}')}, {1 << 52}")
    E = lines.let(f"sub i64 {lines.let(f'lshr i64 {bits}, 52')}, 1075")
    window = _window(lines, lines.let(f"add i64 {E}, {64 * BEFORE - 2}"))
    high, low = _product(lines, M, window)
    turns = lines.let(f"lshr i64 {lines.let(f'add i64 {high}, {1 << 61}')}, 62")
    left = lines.let(f"sub i64 {high}, {lines.let(f'shl i64 {turns}, 62')}")
    # Each part has so few bits that it is a float64; the third one is too small to count beside the others' roundings.
    upper = lines.let(f"and i64 {lines.let(f'add i64 {left}, {1 << 31}')}, {-(1 << 32)}")
    parts = (
        (lines.let(f"sitofp i64 {upper} to double"), -62),
        (lines.let(f"sitofp i64 {lines.let(f'sub i64 {left}, {upper}')} to double"), -62),
        (lines.let(f"uitofp i64 {low} to double"), -126),
    )
    a, b, c = (v.mul(v.splat(part), v.constant(2.0**power)) for part, power in parts)
    tail = v.add(b, c)
    s = v.add(a, tail)
    lost = v.sub(tail, v.sub(s, a))
    r = v.mul(s, v.constant(HALF_PI[0]))
    rest = v.fma(lost, v.constant(HALF_PI[0]), v.mul(s, v.constant(HALF_PI[1])))
    t = v.add(v.intrinsic("fma", s, v.constant(HALF_PI[0]), v.neg(r)), rest)
    whole = v.add(r, t)
    return whole, v.sub(t, v.sub(whole, r)), lines.let(f"insertelement {v.integer} poison, i64 {turns}, i32 0")


def waves(v: Vector, x: str) -> tuple[str, str]:
    """Return sine and cosine of one number; NaN where it is not finite."""
    lines, size = v.lines, v.intrinsic("fabs", x)
    is_large = lines.let(f"extractelement {v.mask} {v.compare('oge', size, v.constant(LARGE))}, i32 0")
    large, small, join = lines.fresh("large"), lines.fresh("small"), lines.fresh("join")
    lines.do(f"br i1 {is_large}, label %{large}, label %{small}")
    lines.label(large)
    finite = v.compare("olt", size, v.constant(math.inf))
    found = of_rest(v, *_reduced(v, v.select(finite, size, v.constant(LARGE))))
    far = [v.select(finite, one, v.constant(math.nan)) for one in found]
    lines.do(f"br label %{join}")
    lines.label(small)
    near = sine_cosine(v, size)
    lines.do(f"br label %{join}")
    lines.label(join)
    sine, cosine = (
        lines.let(f"phi {v.type} [ {one}, %{large} ], [ {other}, %{small} ]")
        for one, other in zip(far, near, strict=True)
    )
    sign = v.int_op("and", v.bits_of(x), v.whole(-(1 << 63)))
    return v.of_bits(v.int_op("xor", v.bits_of(sine), sign)), cosine


def sine(v: Vector, x: str) -> str:
    """Write sin(x)."""
    return waves(v, x)[0]


def cosine(v: Vector, x: str) -> str:
    """Write cos(x)."""
    return waves(v, x)[1]


def tangent(v: Vector, x: str) -> str:
    """Write tan(x)."""
    return v.div(*waves(v, x))
