"""What AVX-512 has instructions for: exponents, mantissas, first guesses of reciprocals, tables of 16 numbers.

All take vectors of float32 that fill whole registers (`fits`); longer ones are cut into such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.codegen.term import Term
from tazza.codegen.vector import Vector
from tazza.runtime.native_code import processor

LANES = 16
REGISTER, WORDS = f"<{LANES} x float>", f"<{LANES} x i32>"
ROUNDING = 4
"""As the processor is set."""
MANTISSA = 0b1111
"""From 0.75 on, below 1.5; NaN of negative numbers, 1 of 0 and infinity."""


def fits(x: Term) -> bool:
    """Whether a vector fills registers of this processor."""
    return x.bits == 32 and x.count % LANES == 0 and processor().vector_bytes == 64


def scaled(x: Term, n: Term) -> Term:
    """Return x * 2^n for whole n, rounded once where that is denormal."""
    return _each("mask.scalef.ps.512", (x, n), ROUNDING)


def exponent(x: Term) -> Term:
    """Return floor(log2(|x|)), also of denormal x; minus infinity of 0, infinity of infinity."""
    return _each("mask.getexp.ps.512", (x,), ROUNDING)


def mantissa(x: Term) -> Term:
    """Return x * 2^-n in [0.75, 1.5)."""
    return _each("mask.getmant.ps.512", (x,), ROUNDING, MANTISSA)


def reciprocal(x: Term) -> Term:
    """Return 1 / x within 1 ulp for |x| in [2^-100, 2^100]: a guess of 14 bits, and a step after Newton."""
    guess = _each("rcp14.ps.512", (x,))
    off = (-x).intrinsic("fma", guess, 1.0)
    return guess.intrinsic("fma", off, guess)


def chosen(table: Sequence[float], places: Term) -> Term:
    """Return of each lane the number of a table of 16 that its lowest four bits say."""
    lines = places.lines
    numbers = Vector(lines, LANES).listed(table)

    def one(part: Term) -> Term:
        return lines.call(REGISTER, "llvm.x86.avx512.permvar.sf.512", numbers, part)

    return _pieced((places,), one)


def _each(name: str, operands: Sequence[Term], rounding: int | None = None, choice: int | None = None) -> Term:
    """Call an instruction for each register of the operands."""
    lines = operands[0].lines
    told = ((choice, "i32"), (0, REGISTER), (-1, "i16"), (rounding, "i32"))
    behind = [lines.number(number, type) for number, type in told if number is not None]

    def one(*parts: Term) -> Term:
        return lines.call(REGISTER, f"llvm.x86.avx512.{name}", *parts, *behind)

    return _pieced(operands, one)


def _part(value: Term, number: int) -> Term:
    """Return a register of a vector."""
    return value if value.count == LANES else value.shuffle(range(LANES * number, LANES * (number + 1)))


def _pieced(operands: Sequence[Term], piece: Callable[..., Term]) -> Term:
    """Return the vector whose registers `piece` makes of those of the operands."""
    parts = [piece(*(_part(one, k) for one in operands)) for k in range(operands[0].count // LANES)]
    while len(parts) > 1:
        count: int = parts[0].count
        order = range(2 * count)
        parts = [left.shuffle(order, right) for left, right in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
