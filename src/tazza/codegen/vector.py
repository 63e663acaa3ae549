"""The functions of the expression language on vectors: what each becomes in LLVM IR.

Arithmetic is rounded as IEEE says. For float32 exp and its kind are polynomials on a reduced range. Largest errors
found, against float64 over all magnitudes (tests hold them): pow, cbrt 0.51 ulp; exp, log, log1p 1.5 ulp; erf, expm1,
sin, cos, acos, rsqrt 2; asin, atan, tan 2.5; sigmoid 3; tanh 3.5. Infinities, NaN, zeros and denormal numbers give what
NumPy gives, but for results of sigmoid below the smallest normal number, which become 0. Sines and their like of
arguments above 2^40, powers of what is not positive, the functions not named here, and all of these functions in
float64 are libm's, lane by lane.

Where the processor has AVX-512, its instructions take exponents apart and put them together, and look up coefficients.

The coefficients come from `tools/fit_polynomials.py`: remainders of the Taylor series, fitted by relative error.
Source: Muller, Elementary Functions, 3rd edition, chapters 4 and 11 (range reduction after Cody and Waite).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tazza.codegen import avx512, circle, saturating, special
from tazza.codegen.arc import acos, asin, atan
from tazza.codegen.emit import Vector
from tazza.codegen.power import cubic_root, power
from tazza.tensor.expression import Expression, Node
from tazza.tensor.function import TRUTHS

Emit = Callable[..., str]

EXP = (0.5, 0.16666512191295624, 0.0416661873459816, 0.008369598537683487, 0.0013951717410236597)
"""(exp(r) - 1 - r) / r^2 on |r| <= ln(2) / 2; error of exp 3e-9."""
LOG = (
    0.3333331346511841, -0.25000008940696716, 0.2000211924314499, -0.1666799634695053, 0.14219550788402557,
    -0.12405592203140259, 0.11888176947832108, -0.116756372153759, 0.06746592372655869,
)  # fmt: skip
"""(log(1 + f) - f + f^2 / 2) / f^3 on sqrt(1/2) <= 1 + f <= sqrt(2); error 8e-10."""
LOG_WIDE = (
    0.33333340287208557, -0.2500016391277313, 0.19999605417251587, -0.16655294597148895, 0.14276233315467834,
    -0.12727797031402588, 0.11700744181871414, -0.0911627858877182, 0.03767307102680206,
)  # fmt: skip
"""The same on 3/4 <= 1 + f <= 3/2; error 9e-10."""
ERF_SMALL = (
    0.12837915122509003, -0.37612494826316833, 0.11281802505254745, -0.02676556631922722, 0.00499098002910614,
    -0.0005976893589831889,
)  # fmt: skip
"""erf(x) / x - 1 in powers of x^2 on |x| <= 0.93; error 2e-8."""
ERF_LARGE = (
    0.0002070069604087621, 1.1276273727416992, 0.6372657418251038, 0.10385638475418091, -0.022189782932400703,
    0.003033694112673402, -0.00019494692969601601,
)  # fmt: skip
"""-log(1 - erf(t)) on 0.92 <= t <= 4; error of erf 2e-9."""
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""ln(2) in two parts; the first has so few bits that its product with an exponent is exact."""
LN2_SHORT, LN2_REST = 0.693145751953125, 1.428606765330187e-06
"""The same with a rest above 0, so that infinite exponents do not become NaN."""
ROUND_32 = 1.5 * 2.0**23
"""Added to a number, this leaves its nearest integer in the low bits; no conversion that NaN could upset."""


def _nearest(v: Vector, x: str) -> tuple[str, str]:
    """Return the nearest integer of x (|x| < 2^22), as float and as integer."""
    shifted = v.add(x, v.constant(ROUND_32))
    whole = v.int_op("sub", v.bits_of(shifted), v.bits_of(v.constant(ROUND_32)))
    return v.sub(shifted, v.constant(ROUND_32)), whole


def _two_to(v: Vector, n: str) -> str:
    """Return 2^n for integers -126 <= n <= 128."""
    return v.of_bits(v.int_op("shl", v.int_op("add", n, v.whole(127)), v.whole(23)))


def _divided_exp(v: Vector, x: str) -> tuple[str, str]:
    """Return n, whole, and r, where x = n ln(2) + r."""
    shifted = v.fma(x, v.constant(1 / math.log(2)), v.constant(ROUND_32))
    n = v.sub(shifted, v.constant(ROUND_32))
    r = v.fma(n, v.constant(-LN2_HIGH), x)
    return n, v.fma(n, v.constant(-LN2_LOW), r)


def _exp_less_1(v: Vector, r: str) -> str:
    """Return exp(r) - 1 on |r| <= ln(2) / 2."""
    return v.fma(v.mul(r, r), v.polynomial(r, EXP), r)


def _reduced_exp(v: Vector, x: str) -> tuple[str, str]:
    """Return q = exp(r) - 1 and the integer n, where x = n ln(2) + r."""
    n, whole = _nearest(v, v.mul(x, v.constant(1 / math.log(2))))
    r = v.fma(n, v.constant(-LN2_HIGH), x)
    r = v.fma(n, v.constant(-LN2_LOW), r)
    return _exp_less_1(v, r), whole


def exp(v: Vector, x: str) -> str:
    """Multiply 1 + q by 2^n in two halves, for denormal results and for n = 128."""
    if special.fits(v):
        return special.exp(v, x)
    x = v.floor_at(v.ceiling(x, 89.0), -104.0)
    if avx512.fits(v):
        n, r = _divided_exp(v, x)
        return avx512.scaled(v, v.add(_exp_less_1(v, r), v.constant(1.0)), n)
    q, n = _reduced_exp(v, x)
    half = v.int_op("ashr", n, v.whole(1))
    rest = v.int_op("sub", n, half)
    value = v.mul(v.add(q, v.constant(1.0)), _two_to(v, half))
    return v.mul(value, _two_to(v, rest))


def expm1(v: Vector, x: str) -> str:
    """2 (2^(n-1) q + (2^(n-1) - 1/2)): nothing cancels near 0, nothing overflows early."""
    q, n = _reduced_exp(v, v.floor_at(v.ceiling(x, 89.0), -30.0))
    scale = _two_to(v, v.int_op("sub", n, v.whole(1)))
    value = v.fma(scale, q, v.sub(scale, v.constant(0.5)))
    return v.add(value, value)


def tanh(v: Vector, x: str) -> str:
    """T / (t + 2) with t = exp(2 |x|) - 1."""
    return saturating.tanh(v, x) if avx512.fits(v) else v.div(*tanh_parts(v, x))


def tanh_parts(v: Vector, x: str) -> tuple[str, str]:
    """Return t, with the sign of x, and t + 2."""
    size = v.ceiling(v.intrinsic("fabs", x), 10.0)
    t = expm1(v, v.add(size, size))
    return v.copy_sign(t, x), v.add(t, v.constant(2.0))


def sigmoid(v: Vector, x: str) -> str:
    """1 / (1 + exp(-x))."""
    one = v.constant(1.0)
    if avx512.fits(v):
        return avx512.reciprocal(v, v.add(one, exp(v, v.ceiling(v.neg(x), 88.0))))
    return v.div(v.constant(1.0), sigmoid_divisor(v, x))


def sigmoid_divisor(v: Vector, x: str) -> str:
    """1 + exp(-x)."""
    return v.add(v.constant(1.0), UNARY[v.bits]["exp"](v, v.neg(x)))


def _log_parts(v: Vector, x: str) -> tuple[str, str, str]:
    """Return f, the exponent e as float, and log(1 + f) - f, where x = 2^e (1 + f) is positive and finite."""
    tiny = v.compare("olt", x, v.constant(2.0**-126))
    bits = v.bits_of(v.select(tiny, v.mul(x, v.constant(2.0**23)), x))
    above = v.int_op("sub", bits, v.whole(0x3F3504F3))  # the bits of sqrt(1/2)
    e = v.int_op("ashr", above, v.whole(23))
    f = v.sub(v.of_bits(v.int_op("sub", bits, v.int_op("shl", e, v.whole(23)))), v.constant(1.0))
    exponent = v.lines.let(f"sitofp {v.integer} {e} to {v.type}")
    exponent = v.select(tiny, v.sub(exponent, v.constant(23.0)), exponent)
    square = v.mul(f, f)
    rest = v.mul(v.mul(square, f), v.polynomial(f, LOG))
    return f, exponent, v.fma(square, v.constant(-0.5), rest)


def log(v: Vector, x: str) -> str:
    """The sum of e ln(2) and log1p of f."""
    if avx512.fits(v):
        return _wide_log(v, x)
    f, e, rest = _log_parts(v, x)
    value = v.fma(e, v.constant(LN2_LOW), rest)
    value = v.fma(e, v.constant(LN2_HIGH), v.add(value, f))
    return _log_special(v, x, value)


def _wide_log(v: Vector, x: str) -> str:
    """The same with f in [-1/4, 1/2): NaN, infinity and 0 have the exponents and mantissas that give what they must."""
    m = avx512.mantissa(v, x)
    e = v.sub(avx512.exponent(v, x), avx512.exponent(v, m))
    f = v.sub(m, v.constant(1.0))
    square = v.mul(f, f)
    rest = v.fma(square, v.constant(-0.5), v.mul(v.mul(square, f), v.polynomial(f, LOG_WIDE)))
    rest = v.fma(e, v.constant(LN2_REST), rest)
    return v.fma(e, v.constant(LN2_SHORT), v.add(rest, f))


def _log_special(v: Vector, x: str, value: str) -> str:
    infinite = v.compare("oeq", x, v.constant(math.inf))
    value = v.select(infinite, x, value)
    value = v.select(v.compare("oeq", x, v.constant(0.0)), v.constant(-math.inf), value)
    return v.select(
        v.compare("uge", x, v.constant(0.0)), v.select(v.compare("uno", x, x), x, value), v.constant(math.nan)
    )


def log1p(v: Vector, x: str) -> str:
    """Log(u) with u = 1 + x rounded, and what the rounding lost, divided by u."""
    one = v.constant(1.0)
    u = v.add(one, x)
    lost = v.sub(x, v.sub(u, one))
    value = v.add(log(v, u), v.div(lost, u))
    value = v.select(v.compare("oeq", u, one), x, value)
    edge = v.compare("oeq", x, v.constant(-1.0))
    value = v.select(edge, v.constant(-math.inf), value)
    return v.select(v.compare("oeq", x, v.constant(math.inf)), x, value)


def erf(v: Vector, x: str) -> str:
    """X + x P(x^2) near 0, else 1 - exp(-G(|x|))."""
    if avx512.fits(v):
        return saturating.erf(v, x)
    size = v.ceiling(v.intrinsic("fabs", x), 4.0)
    near = v.fma(v.polynomial(v.mul(x, x), ERF_SMALL), x, x)
    far = v.sub(v.constant(1.0), exp(v, v.neg(v.polynomial(size, ERF_LARGE))))
    return v.select(v.compare("olt", size, v.constant(0.925)), near, v.copy_sign(far, x))


def _libm(name: str) -> Callable[..., str]:
    def emit(v: Vector, *operands: str) -> str:
        return v.each(name if v.bits == 64 else f"{name}f", *operands)

    return emit


def _sqrt(v: Vector, x: str) -> str:
    return v.intrinsic("sqrt", x)


def _rsqrt(v: Vector, x: str) -> str:
    return v.div(v.constant(1.0), _sqrt(v, x))


def _sign(v: Vector, x: str) -> str:
    some = v.compare("une", x, v.constant(0.0))
    signed = v.copy_sign(v.constant(1.0), x)  # what a comparison flushes to 0 has to become 0 as well
    return v.select(v.compare("uno", x, x), x, v.select(some, signed, v.mul(x, v.constant(0.0))))


def _relu(v: Vector, x: str) -> str:
    return v.floor_at(x, 0.0)


def _square(v: Vector, x: str) -> str:
    return v.mul(x, x)


def _cube(v: Vector, x: str) -> str:
    return v.mul(v.mul(x, x), x)


def _rounding(name: str) -> Callable[[Vector, str], str]:
    return lambda v, x: v.intrinsic(name, x)


def _divided(v: Vector, a: str, b: str) -> tuple[str, str]:
    """Return the quotient, not yet whole, and the remainder of a division that rounds towards minus infinity."""
    zero = v.constant(0.0)
    rest = v.each("fmod" if v.bits == 64 else "fmodf", a, b)
    quotient = v.div(v.sub(a, rest), b)
    some = v.compare("une", rest, zero)
    lines = v.lines
    signs = lines.let(f"xor {v.mask} {v.compare('olt', b, zero)}, {v.compare('olt', rest, zero)}")
    other = lines.let(f"and {v.mask} {some}, {signs}")
    quotient = v.select(other, v.sub(quotient, v.constant(1.0)), quotient)
    whole = v.select(other, v.add(rest, b), v.select(some, rest, v.copy_sign(zero, b)))
    return quotient, whole


def _remainder(v: Vector, a: str, b: str) -> str:
    return _divided(v, a, b)[1]


def _floor_divide(v: Vector, a: str, b: str) -> str:
    quotient, _ = _divided(v, a, b)
    floor = v.intrinsic("floor", quotient)
    near = v.compare("ogt", v.sub(quotient, floor), v.constant(0.5))
    floor = v.select(near, v.add(floor, v.constant(1.0)), floor)
    plain = v.div(a, b)
    value = v.select(v.compare("une", quotient, v.constant(0.0)), floor, v.copy_sign(v.constant(0.0), plain))
    return v.select(v.compare("oeq", b, v.constant(0.0)), plain, value)


def _logaddexp(v: Vector, a: str, b: str) -> str:
    """Return max(a, b) + log1p(exp(-|a - b|)); equal ones may be infinite."""
    size = v.intrinsic("fabs", v.sub(a, b))
    most = v.select(v.compare("ogt", a, b), a, b)
    functions = UNARY[v.bits]
    value = v.add(most, functions["log1p"](v, functions["exp"](v, v.neg(size))))
    return v.select(v.compare("oeq", a, b), v.add(a, v.constant(math.log(2))), value)


_PLAIN: dict[str, Emit] = {
    "add": Vector.add,
    "sub": Vector.sub,
    "mul": Vector.mul,
    "div": Vector.div,
    "neg": Vector.neg,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "abs": _rounding("fabs"),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "round": _rounding("rint"),
    "sign": _sign,
    "square": _square,
    "cube": _cube,
    "relu": _relu,
    "sigmoid": sigmoid,
    "trunc": _rounding("trunc"),
    "copysign": Vector.copy_sign,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "logaddexp": _logaddexp,
    **{name: _libm(name) for name in ("pow", "exp2", "log2", "log10", "tan", "asin", "acos", "atan", "atan2", "hypot")},
    **{name: _libm(name) for name in ("sinh", "cosh", "asinh", "acosh", "atanh")},
}
_LIBM = ("exp", "log", "log1p", "expm1", "tanh", "erf", "sin", "cos", "cbrt")
UNARY: dict[int, dict[str, Emit]] = {
    32: {
        **_PLAIN,
        "exp": exp,
        "log": log,
        "log1p": log1p,
        "expm1": expm1,
        "tanh": tanh,
        "erf": erf,
        "sin": circle.sin,
        "cos": circle.cos,
        "tan": circle.tan,
        "pow": power,
        "cbrt": cubic_root,
        "asin": asin,
        "acos": acos,
        "atan": atan,
    },
    64: {**_PLAIN, **{name: _libm(name) for name in _LIBM}},
}
"""Bits -> function -> how to write it."""

_PREDICATES = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_LOGIC = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor", "logical_not": "xor"}
"""Instructions on masks; not is exclusive or with all ones."""
_TESTS: dict[str, Callable[[Vector, str], str]] = {
    "isnan": lambda v, x: v.compare("uno", x, x),
    "isinf": lambda v, x: v.compare("oeq", v.intrinsic("fabs", x), v.constant(math.inf)),
    "isfinite": lambda v, x: v.compare("one", v.intrinsic("fabs", x), v.constant(math.inf)),
    "signbit": lambda v, x: v.lines.let(f"icmp slt {v.integer} {v.bits_of(x)}, zeroinitializer"),
}
_POWERS: dict[float, Callable[[Vector, str], str]] = {
    -1.0: lambda v, x: v.div(v.constant(1.0), x),
    1.0: lambda v, x: x,
    2.0: _square,
    3.0: _cube,
}
"""Constant exponents that need no logarithm. Not 1/2: pow(-inf, 0.5) is inf, and sqrt of it NaN."""


def finished(v: Vector, epilogue: Expression | None, value: str, others: Sequence[str]) -> str:
    """Return the epilogue of a vector y and others, s0, s1 ...; y itself where there is none."""
    if epilogue is None:
        return value
    return Emission(v, {"y": value, **{f"s{i}": one for i, one in enumerate(others)}}).write(epilogue)


class Emission:
    """Writes expressions over vectors; a subexpression that occurs in several is computed once."""

    def __init__(self, v: Vector, values: Mapping[str, str]) -> None:
        """Take the vectors that the names stand for."""
        self.v = v
        self.values = values
        self._done: dict[Node, str] = {}
        self._masks: dict[Node, str] = {}

    def write(self, expression: Expression) -> str:
        """Return the vector of an expression."""
        for node in expression.nodes():
            if node not in self._done:
                self._done[node] = self._node(node)
        return self._done[expression.root]

    def _node(self, node: Node) -> str:
        v = self.v
        if node.head == "name":
            return self.values[str(node.value)]
        if isinstance(node.value, float):
            return v.constant(node.value)
        operands = [self._done[one] for one in node.arguments]
        if node.head in TRUTHS:
            mask = self._masks[node] = self._truth(node, operands)
            return v.select(mask, v.constant(1.0), v.constant(0.0))
        if node.head == "where":
            return v.select(self._mask(node.arguments[0]), operands[1], operands[2])
        return self._float(node, operands)

    def _float(self, node: Node, operands: list[str]) -> str:
        """Return what a function of floats gives that is a float itself."""
        v = self.v
        if node.head in ("min", "max"):
            return self._extreme(node, operands)
        if node.head == "pow" and isinstance(node.arguments[1].value, float):
            simple = _POWERS.get(node.arguments[1].value)
            if simple is not None:
                return simple(v, operands[0])
        return UNARY[v.bits][node.head](v, *operands)

    def _truth(self, node: Node, operands: list[str]) -> str:
        """Return the mask of a function that answers yes or no."""
        v = self.v
        if node.head in _PREDICATES:
            return v.compare(_PREDICATES[node.head], *operands)
        if node.head in _LOGIC:
            masks = [self._mask(one) for one in node.arguments]
            return v.lines.let(f"{_LOGIC[node.head]} {v.mask} {masks[0]}, {masks[1] if len(masks) > 1 else v.all_set}")
        return _TESTS[node.head](v, operands[0])

    def _mask(self, node: Node) -> str:
        if node in self._masks:
            return self._masks[node]
        return self.v.compare("une", self._done[node], self.v.constant(0.0))

    def _extreme(self, node: Node, operands: list[str]) -> str:
        """The smaller or larger one; NaN of either is handed on."""
        v = self.v
        predicate = "ogt" if node.head == "max" else "olt"
        a, b = operands
        if node.arguments[1].head == "constant":
            a, b = b, a
        chosen = v.select(v.compare(predicate, a, b), a, b)  # b where b is NaN
        if "constant" in (node.arguments[0].head, node.arguments[1].head):
            return chosen
        return v.select(v.compare("uno", a, a), a, chosen)
