"""What AVX-512 has instructions for: exponents, mantissas, first guesses of reciprocals, tables of 16 numbers.

All take vectors of float32 that fill whole registers (`fits`); longer ones are cut into such.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from tazza.codegen.emit import Vector
from tazza.runtime.native_code import processor

LANES = 16
REGISTER, WORDS = f"<{LANES} x float>", f"<{LANES} x i32>"
ROUNDING = 4
"""As the processor is set."""
MANTISSA = 0b1111
"""From 0.75 on, below 1.5; NaN of negative numbers, 1 of 0 and infinity."""


def fits(v: Vector) -> bool:
    """Whether these vectors fill registers of this processor."""
    return v.bits == 32 and v.count % LANES == 0 and processor().vector_bytes == 64


def scaled(v: Vector, x: str, n: str) -> str:
    """Return x * 2^n for whole n, rounded once where that is denormal."""
    return _each(v, "mask.scalef.ps.512", (x, n), ROUNDING)


def exponent(v: Vector, x: str) -> str:
    """Return floor(log2(|x|)), also of denormal x; minus infinity of 0, infinity of infinity."""
    return _each(v, "mask.getexp.ps.512", (x,), ROUNDING)


def mantissa(v: Vector, x: str) -> str:
    """Return x * 2^-n in [0.75, 1.5)."""
    return _each(v, "mask.getmant.ps.512", (x,), ROUNDING, MANTISSA)


def reciprocal(v: Vector, x: str) -> str:
    """Return 1 / x within 1 ulp for |x| in [2^-100, 2^100]: a guess of 14 bits, and a step after Newton."""
    guess = _each(v, "rcp14.ps.512", (x,))
    off = v.intrinsic("fma", v.neg(x), guess, v.constant(1.0))
    return v.intrinsic("fma", guess, off, guess)


def chosen(v: Vector, table: Sequence[float], places: str) -> str:
    """Return of each lane the number of a table of 16 that its lowest four bits say."""
    numbers = ", ".join(f"float 0x{struct.pack('>d', _float32(one)).hex().upper()}" for one in table)
    v.lines.declare(f"{REGISTER} @llvm.x86.avx512.permvar.sf.512({REGISTER}, {WORDS})")

    def one(number: int) -> str:
        part = _part(v, v.integer, places, number)
        operands = f"{REGISTER} <{numbers}>, {WORDS} {part}"
        return v.lines.let(f"call {REGISTER} @llvm.x86.avx512.permvar.sf.512({operands})")

    return _pieced(v, one)


def _float32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _each(v: Vector, name: str, operands: Sequence[str], rounding: int | None = None, choice: int | None = None) -> str:
    """Call an instruction for each register of the operands."""
    full = f"@llvm.x86.avx512.{name}"
    behind = [] if choice is None else [f"i32 {choice}"]
    behind += [f"{REGISTER} zeroinitializer", "i16 -1", *([] if rounding is None else [f"i32 {rounding}"])]
    kinds = [REGISTER] * len(operands) + [one.split(" zero")[0] if "zero" in one else one.split()[0] for one in behind]
    v.lines.declare(f"{REGISTER} {full}({', '.join(kinds)})")

    def one(number: int) -> str:
        parts = [f"{REGISTER} {_part(v, v.type, operand, number)}" for operand in operands]
        return v.lines.let(f"call {REGISTER} {full}({', '.join([*parts, *behind])})")

    return _pieced(v, one)


def _part(v: Vector, kind: str, value: str, number: int) -> str:
    """Return a register of a vector."""
    if v.count == LANES:
        return value
    return v.lines.shuffle(kind, range(LANES * number, LANES * (number + 1)), value)


def _pieced(v: Vector, piece: Callable[[int], str]) -> str:
    """Return the vector whose registers `piece(number)` gives."""
    parts, count = [piece(number) for number in range(v.count // LANES)], LANES
    while len(parts) > 1:
        kind, order = f"<{count} x float>", range(2 * count)
        parts = [v.lines.shuffle(kind, order, *both) for both in zip(parts[::2], parts[1::2], strict=True)]
        count *= 2
    return parts[0]
