"""Functions of libm for kernels of a GPU, which has none: in float64, of additions, products and quotients.

Largest errors: exp, log, sin and cos 1 ulp of float64, log1p and tan 2; powf is rounded from these once, so it is right
to 0.51 ulp of float32.

Source: Muller, Elementary Functions, 3rd edition, chapters 4 (series) and 11 (range reduction after Cody and Waite).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

from tazza.codegen import grid_curve, large_angle
from tazza.codegen.emit import Lines, Vector
from tazza.errors import UnsupportedError
from tazza.tensor import DataType

TERMS = 14
"""Of exp on |r| <= ln(2) / 2: what follows is below 1e-17."""
LOG_TERMS = 12
"""Of log((1 + s) / (1 - s)) on |s| <= 0.172, in powers of s^2."""
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""ln(2) in two parts; the first has so few bits that its product with an exponent is exact."""


def _exp(v: Vector, x: str) -> str:
    """2^n times the series of exp(r), where x = n ln(2) + r."""
    limited = v.floor_at(v.ceiling(x, 710.0), -746.0)
    whole, n = grid_curve.rounded(v, v.mul(limited, v.constant(1 / math.log(2))))
    r = v.fma(n, v.constant(-LN2_LOW), v.fma(n, v.constant(-LN2_HIGH), limited))
    series = v.polynomial(r, [1 / math.factorial(k) for k in range(TERMS)])
    return grid_curve.scaled(v, series, whole)


def _log(v: Vector, x: str) -> str:
    """E ln(2) + 2 atanh(s), where x = 2^e f, s = (f - 1) / (f + 1), and f is near 1."""
    tiny = v.compare("olt", x, v.constant(2.0**-1022))
    bits = v.bits_of(v.select(tiny, v.mul(x, v.constant(2.0**54)), x))
    above = v.int_op("sub", bits, v.whole(0x3FE6A09E667F3BCD))  # the bits of sqrt(1/2)
    e = v.int_op("ashr", above, v.whole(52))
    f = v.of_bits(v.int_op("sub", bits, v.int_op("shl", e, v.whole(52))))
    exponent = v.lines.let(f"sitofp {v.integer} {e} to {v.type}")
    exponent = v.select(tiny, v.sub(exponent, v.constant(54.0)), exponent)
    s = v.div(v.sub(f, v.constant(1.0)), v.add(f, v.constant(1.0)))
    square, twice = v.mul(s, s), v.add(s, s)
    rest = v.mul(v.mul(twice, square), v.polynomial(square, [1 / (2 * k + 3) for k in range(LOG_TERMS)]))
    value = v.fma(exponent, v.constant(LN2_HIGH), v.add(v.fma(exponent, v.constant(LN2_LOW), rest), twice))
    infinite, zero = v.constant(math.inf), v.constant(0.0)
    value = v.select(v.compare("oeq", x, infinite), infinite, value)
    value = v.select(v.compare("oeq", x, zero), v.constant(-math.inf), value)
    return v.select(v.compare("uge", x, zero), v.select(v.compare("uno", x, x), x, value), v.constant(math.nan))


def _power(v: Vector, x: str, y: str) -> str:
    """exp(y log|x|), with the sign of x where y is odd; NaN where x is negative and y is not whole."""
    size, zero, one = v.intrinsic("fabs", x), v.constant(0.0), v.constant(1.0)
    value = _exp(v, v.mul(y, _log(v, size)))
    whole = v.compare("oeq", v.intrinsic("trunc", y), y)
    half = v.mul(y, v.constant(0.5))
    odd = v.lines.let(f"and {v.mask} {whole}, {v.compare('une', v.intrinsic('trunc', half), half)}")
    value = v.select(odd, v.copy_sign(value, x), value)
    finite = v.compare("olt", size, v.constant(math.inf))
    broken = v.lines.let(f"and {v.mask} {v.compare('olt', x, zero)}, {finite}")
    value = v.select(broken, v.select(whole, value, v.constant(math.nan)), value)
    # 1 to any power, and any number to that of 0, is 1, NaN included; so is -1 to an infinite power.
    for is_one in (v.compare("oeq", x, one), v.compare("oeq", y, zero)):
        value = v.select(is_one, one, value)
    endless = v.compare("oeq", v.intrinsic("fabs", y), v.constant(math.inf))
    unit = v.lines.let(f"and {v.mask} {endless}, {v.compare('oeq', size, one)}")
    return v.select(unit, one, value)


def _log1p(v: Vector, x: str) -> str:
    """log(u) x / (u - 1), where u is 1 + x as it is rounded: the quotient makes good what that lost."""
    one = v.constant(1.0)
    u = v.add(x, one)
    value = v.mul(_log(v, u), v.div(x, v.sub(u, one)))
    kept = v.lines.let(f"or {v.mask} {v.compare('oeq', u, one)}, {v.compare('oeq', x, v.constant(math.inf))}")
    return v.select(kept, x, value)


_expm1 = grid_curve.expm1(_exp, _log)

FUNCTIONS: dict[str, tuple[int, Callable[..., str]]] = {
    "exp": (1, _exp),
    "log": (1, _log),
    "pow": (2, _power),
    "log1p": (1, _log1p),
    "sin": (1, large_angle.sine),
    "cos": (1, large_angle.cosine),
    "tan": (1, large_angle.tangent),
    "expm1": (1, _expm1),
    "tanh": (1, grid_curve.tanh(_expm1)),
    "sinh": (1, grid_curve.sinh(_exp, _expm1)),
    "cosh": (1, grid_curve.cosh(_exp)),
    "asinh": (1, grid_curve.asinh(_log, _log1p)),
    "acosh": (1, grid_curve.acosh(_log, _log1p)),
    "atanh": (1, grid_curve.atanh(_log1p)),
    "log2": (1, grid_curve.logarithm(_log, 2)),
    "log10": (1, grid_curve.logarithm(_log, 10)),
    "exp2": (1, grid_curve.exp2(_exp)),
    "hypot": (2, grid_curve.hypot),
}
"""Name in libm, for float64: how many operands, and how it is written. With an f behind it, the one for float32."""


def _definition(name: str) -> str:
    """Return the function."""
    single = name not in FUNCTIONS
    arity, write = FUNCTIONS[name.removesuffix("f") if single else name]
    kind = "float" if single else "double"
    lines = Lines()
    lines.label("entry")
    v = Vector(lines, 1, DataType.DOUBLE)
    operands = [v.splat(lines.let(f"fpext float %x{k} to double") if single else f"%x{k}") for k in range(arity)]
    value = lines.let(f"extractelement {v.type} {write(v, *operands)}, i32 0")
    if single:
        value = lines.let(f"fptrunc double {value} to float")
    lines.do(f"ret {kind} {value}")
    given = ", ".join(f"{kind} %x{k}" for k in range(arity))
    return "\n".join((*lines.declared, lines.text(f"internal {kind} @{name}({given})", "nounwind noinline")))


def defined(declared: Iterable[str]) -> list[str]:
    """Return these declarations, with definitions in place of those of functions that a GPU does not have.

    Raises:
        UnsupportedError: one is not written here.
    """
    found = list[str]()
    known = set[str]()
    for line in declared:
        name = re.findall(r"@([\w.]+)\(", line)[0]
        if name.startswith("llvm."):
            known.add(line)
        elif name in FUNCTIONS or name.removesuffix("f") in FUNCTIONS:
            *needed, body = _split(_definition(name))
            known.update(needed)
            found.append(body)
        else:
            raise UnsupportedError(f"{name} is not written for a GPU")
    if any(f"@{large_angle.TABLE}" in body for body in found):
        found.insert(0, large_angle.table())
    return [*sorted(known), *found]


def _split(text: str) -> list[str]:
    """Return declarations line by line, and what follows them."""
    lines = text.split("\n")
    first = next(k for k, line in enumerate(lines) if line.startswith("define"))
    return [*lines[:first], "\n".join(lines[first:])]
