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
from tazza.codegen.term import Lines, Term
from tazza.errors import UnsupportedError

TERMS = 14
"""Of exp on |r| <= ln(2) / 2: what follows is below 1e-17."""
LOG_TERMS = 12
"""Of log((1 + s) / (1 - s)) on |s| <= 0.172, in powers of s^2."""
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""ln(2) in two parts; the first has so few bits that its product with an exponent is exact."""


def _exp(x: Term) -> Term:
    """2^n times the series of exp(r), where x = n ln(2) + r."""
    limited = x.at_most(710.0).at_least(-746.0)
    whole, n = grid_curve.rounded(limited * (1 / math.log(2)))
    r = n.fma(-LN2_LOW, n.fma(-LN2_HIGH, limited))
    series = r.polynomial([1 / math.factorial(k) for k in range(TERMS)])
    return grid_curve.scaled(series, whole)


def _log(x: Term) -> Term:
    """E ln(2) + 2 atanh(s), where x = 2^e f, s = (f - 1) / (f + 1), and f is near 1."""
    tiny = x < 2.0**-1022
    bits = tiny.choose(x * 2.0**54, x).as_bits()
    e = (bits - 0x3FE6A09E667F3BCD) >> 52  # the bits of sqrt(1/2)
    f = (bits - (e << 52)).as_floats()
    exponent = e.to("double")
    exponent = tiny.choose(exponent - 54.0, exponent)
    s = (f - 1.0) / (f + 1.0)
    square, twice = s * s, s + s
    rest = twice * square * square.polynomial([1 / (2 * k + 3) for k in range(LOG_TERMS)])
    value = exponent.fma(LN2_HIGH, exponent.fma(LN2_LOW, rest) + twice)
    value = x.equals(math.inf).choose(math.inf, value)
    value = x.equals(0.0).choose(-math.inf, value)
    return x.compare("uge", 0.0).choose(x.is_nan().choose(x, value), math.nan)


def _power(x: Term, y: Term) -> Term:
    """exp(y log|x|), with the sign of x where y is odd; NaN where x is negative and y is not whole."""
    size = abs(x)
    value = _exp(y * _log(size))
    whole = y.intrinsic("trunc").equals(y)
    half = y * 0.5
    odd = whole & half.intrinsic("trunc").differs(half)
    value = odd.choose(value.copy_sign(x), value)
    finite = size < math.inf
    value = ((x < 0.0) & finite).choose(whole.choose(value, math.nan), value)
    # 1 to any power, and any number to that of 0, is 1, NaN included; so is -1 to an infinite power.
    for is_one in (x.equals(1.0), y.equals(0.0)):
        value = is_one.choose(1.0, value)
    return (abs(y).equals(math.inf) & size.equals(1.0)).choose(1.0, value)


def _log1p(x: Term) -> Term:
    """log(u) x / (u - 1), where u is 1 + x as it is rounded: the quotient makes good what that lost."""
    u = x + 1.0
    value = _log(u) * (x / (u - 1.0))
    return (u.equals(1.0) | x.equals(math.inf)).choose(x, value)


_expm1 = grid_curve.expm1(_exp, _log)

FUNCTIONS: dict[str, tuple[int, Callable[..., Term]]] = {
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
    operands = [Term(lines, kind, f"%x{k}").to("double").splat(1) for k in range(arity)]
    lines.do(f"ret {write(*operands).lane(0).to(kind).typed}")
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
