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
from tazza.codegen.power import cubic_root, power
from tazza.codegen.term import Term
from tazza.codegen.vector import Vector
from tazza.tensor.expression import Expression, Node
from tazza.tensor.function import TRUTHS

Emit = Callable[..., Term]

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


def _nearest(x: Term) -> tuple[Term, Term]:
    """Return the nearest integer of x (|x| < 2^22), as float and as integer."""
    shifted = x + ROUND_32
    whole = shifted.as_bits() - x.like(ROUND_32).as_bits()
    return shifted - ROUND_32, whole


def _two_to(n: Term) -> Term:
    """Return 2^n for integers -126 <= n <= 128."""
    return ((n + 127) << 23).as_floats()


def _divided_exp(x: Term) -> tuple[Term, Term]:
    """Return n, whole, and r, where x = n ln(2) + r."""
    shifted = x.fma(1 / math.log(2), ROUND_32)
    n = shifted - ROUND_32
    r = n.fma(-LN2_HIGH, x)
    return n, n.fma(-LN2_LOW, r)


def _exp_less_1(r: Term) -> Term:
    """Return exp(r) - 1 on |r| <= ln(2) / 2."""
    return (r * r).fma(r.polynomial(EXP), r)


def _reduced_exp(x: Term) -> tuple[Term, Term]:
    """Return q = exp(r) - 1 and the integer n, where x = n ln(2) + r."""
    n, whole = _nearest(x * (1 / math.log(2)))
    r = n.fma(-LN2_HIGH, x)
    r = n.fma(-LN2_LOW, r)
    return _exp_less_1(r), whole


def exp(x: Term) -> Term:
    """Multiply 1 + q by 2^n in two halves, for denormal results and for n = 128."""
    if special.fits(x):
        return special.exp(x)
    x = x.at_most(89.0).at_least(-104.0)
    if avx512.fits(x):
        n, r = _divided_exp(x)
        return avx512.scaled(_exp_less_1(r) + 1.0, n)
    q, n = _reduced_exp(x)
    half = n >> 1
    rest = n - half
    value = (q + 1.0) * _two_to(half)
    return value * _two_to(rest)


def expm1(x: Term) -> Term:
    """2 (2^(n-1) q + (2^(n-1) - 1/2)): nothing cancels near 0, nothing overflows early."""
    q, n = _reduced_exp(x.at_most(89.0).at_least(-30.0))
    scale = _two_to(n - 1)
    value = scale.fma(q, scale - 0.5)
    return value + value


def tanh(x: Term) -> Term:
    """T / (t + 2) with t = exp(2 |x|) - 1."""
    if avx512.fits(x):
        return saturating.tanh(x)
    t, more = tanh_parts(x)
    return t / more


def tanh_parts(x: Term) -> tuple[Term, Term]:
    """Return t, with the sign of x, and t + 2."""
    size = abs(x).at_most(10.0)
    t = expm1(size + size)
    return t.copy_sign(x), t + 2.0


def sigmoid(x: Term) -> Term:
    """1 / (1 + exp(-x))."""
    if avx512.fits(x):
        return avx512.reciprocal(1.0 + exp((-x).at_most(88.0)))
    return 1.0 / sigmoid_divisor(x)


def sigmoid_divisor(x: Term) -> Term:
    """1 + exp(-x)."""
    return 1.0 + UNARY[x.bits]["exp"](-x)


def _log_parts(x: Term) -> tuple[Term, Term, Term]:
    """Return f, the exponent e as float, and log(1 + f) - f, where x = 2^e (1 + f) is positive and finite."""
    tiny = x < 2.0**-126
    bits = tiny.choose(x * 2.0**23, x).as_bits()
    above = bits - 0x3F3504F3  # the bits of sqrt(1/2)
    e = above >> 23
    f = (bits - (e << 23)).as_floats() - 1.0
    exponent = e.to(x.scalar)
    exponent = tiny.choose(exponent - 23.0, exponent)
    square = f * f
    rest = square * f * f.polynomial(LOG)
    return f, exponent, square.fma(-0.5, rest)


def log(x: Term) -> Term:
    """The sum of e ln(2) and log1p of f."""
    if avx512.fits(x):
        return _wide_log(x)
    f, e, rest = _log_parts(x)
    value = e.fma(LN2_LOW, rest)
    value = e.fma(LN2_HIGH, value + f)
    return _log_special(x, value)


def _wide_log(x: Term) -> Term:
    """The same with f in [-1/4, 1/2): NaN, infinity and 0 have the exponents and mantissas that give what they must."""
    m = avx512.mantissa(x)
    e = avx512.exponent(x) - avx512.exponent(m)
    f = m - 1.0
    square = f * f
    rest = square.fma(-0.5, square * f * f.polynomial(LOG_WIDE))
    rest = e.fma(LN2_REST, rest)
    return e.fma(LN2_SHORT, rest + f)


def _log_special(x: Term, value: Term) -> Term:
    infinite = x.equals(math.inf)
    value = infinite.choose(x, value)
    value = x.equals(0.0).choose(-math.inf, value)
    return x.compare("uge", 0.0).choose(x.is_nan().choose(x, value), math.nan)


def log1p(x: Term) -> Term:
    """Log(u) with u = 1 + x rounded, and what the rounding lost, divided by u."""
    u = 1.0 + x
    lost = x - (u - 1.0)
    value = log(u) + lost / u
    value = u.equals(1.0).choose(x, value)
    edge = x.equals(-1.0)
    value = edge.choose(-math.inf, value)
    return x.equals(math.inf).choose(x, value)


def erf(x: Term) -> Term:
    """X + x P(x^2) near 0, else 1 - exp(-G(|x|))."""
    if avx512.fits(x):
        return saturating.erf(x)
    size = abs(x).at_most(4.0)
    near = (x * x).polynomial(ERF_SMALL).fma(x, x)
    far = 1.0 - exp(-size.polynomial(ERF_LARGE))
    return (size < 0.925).choose(near, far.copy_sign(x))


def _libm(name: str) -> Callable[..., Term]:
    def emit(*operands: Term) -> Term:
        return operands[0].each(name if operands[0].bits == 64 else f"{name}f", *operands[1:])

    return emit


def _sqrt(x: Term) -> Term:
    return x.intrinsic("sqrt")


def _rsqrt(x: Term) -> Term:
    return 1.0 / _sqrt(x)


def _sign(x: Term) -> Term:
    some = x.differs(0.0)
    signed = x.like(1.0).copy_sign(x)  # what a comparison flushes to 0 has to become 0 as well
    return x.is_nan().choose(x, some.choose(signed, x * 0.0))


def _relu(x: Term) -> Term:
    return x.at_least(0.0)


def _square(x: Term) -> Term:
    return x * x


def _cube(x: Term) -> Term:
    return x * x * x


def _rounding(name: str) -> Callable[[Term], Term]:
    return lambda x: x.intrinsic(name)


def _divided(a: Term, b: Term) -> tuple[Term, Term]:
    """Return the quotient, not yet whole, and the remainder of a division that rounds towards minus infinity."""
    zero = a.like(0.0)
    rest = a.each("fmod" if a.bits == 64 else "fmodf", b)
    quotient = (a - rest) / b
    some = rest.differs(zero)
    signs = (b < zero) ^ (rest < zero)
    other = some & signs
    quotient = other.choose(quotient - 1.0, quotient)
    whole = other.choose(rest + b, some.choose(rest, zero.copy_sign(b)))
    return quotient, whole


def _remainder(a: Term, b: Term) -> Term:
    return _divided(a, b)[1]


def _floor_divide(a: Term, b: Term) -> Term:
    quotient, _ = _divided(a, b)
    floor = quotient.intrinsic("floor")
    near = quotient - floor > 0.5
    floor = near.choose(floor + 1.0, floor)
    plain = a / b
    value = quotient.differs(0.0).choose(floor, a.like(0.0).copy_sign(plain))
    return b.equals(0.0).choose(plain, value)


def _logaddexp(a: Term, b: Term) -> Term:
    """Return max(a, b) + log1p(exp(-|a - b|)); equal ones may be infinite."""
    size = abs(a - b)
    most = (a > b).choose(a, b)
    functions = UNARY[a.bits]
    value = most + functions["log1p"](functions["exp"](-size))
    return a.equals(b).choose(a + math.log(2), value)


_ARITHMETIC: dict[str, Callable[..., Term]] = {
    "add": Term.__add__,
    "sub": Term.__sub__,
    "mul": Term.__mul__,
    "div": Term.__truediv__,
    "neg": Term.__neg__,
    "copysign": Term.copy_sign,
}
_PLAIN: dict[str, Emit] = {
    **_ARITHMETIC,
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
_TESTS: dict[str, Callable[[Term], Term]] = {
    "isnan": lambda x: x.is_nan(),
    "isinf": lambda x: abs(x).equals(math.inf),
    "isfinite": lambda x: abs(x).compare("one", math.inf),
    "signbit": lambda x: x.as_bits() < 0,
}
_POWERS: dict[float, Callable[[Term], Term]] = {
    -1.0: lambda x: 1.0 / x,
    1.0: lambda x: x,
    2.0: _square,
    3.0: _cube,
}
"""Constant exponents that need no logarithm. Not 1/2: pow(-inf, 0.5) is inf, and sqrt of it NaN."""


def finished(v: Vector, epilogue: Expression | None, value: Term, others: Sequence[Term]) -> Term:
    """Return the epilogue of a vector y and others, s0, s1 ...; y itself where there is none."""
    if epilogue is None:
        return value
    return Emission(v, {"y": value, **{f"s{i}": one for i, one in enumerate(others)}}).write(epilogue)


class Emission:
    """Writes expressions over vectors; a subexpression that occurs in several is computed once."""

    def __init__(self, v: Vector, values: Mapping[str, Term]) -> None:
        """Take the vectors that the names stand for."""
        self.v = v
        self.values = values
        self._done: dict[Node, Term] = {}
        self._masks: dict[Node, Term] = {}

    def write(self, expression: Expression) -> Term:
        """Return the vector of an expression."""
        for node in expression.nodes():
            if node not in self._done:
                self._done[node] = self._node(node)
        return self._done[expression.root]

    def _node(self, node: Node) -> Term:
        v = self.v
        if node.head == "name":
            return self.values[str(node.value)]
        if isinstance(node.value, float):
            return v.constant(node.value)
        operands = [self._done[one] for one in node.arguments]
        if node.head in TRUTHS:
            mask = self._masks[node] = self._truth(node, operands)
            return mask.choose(v.constant(1.0), 0.0)
        if node.head == "where":
            return self._mask(node.arguments[0]).choose(operands[1], operands[2])
        return self._float(node, operands)

    def _float(self, node: Node, operands: list[Term]) -> Term:
        """Return what a function of floats gives that is a float itself."""
        if node.head in ("min", "max"):
            return self._extreme(node, operands)
        if node.head == "pow" and isinstance(node.arguments[1].value, float):
            simple = _POWERS.get(node.arguments[1].value)
            if simple is not None:
                return simple(operands[0])
        return UNARY[self.v.bits][node.head](*operands)

    def _truth(self, node: Node, operands: list[Term]) -> Term:
        """Return the mask of a function that answers yes or no."""
        if node.head in _PREDICATES:
            return operands[0].compare(_PREDICATES[node.head], operands[1])
        if node.head in _LOGIC:
            masks = [self._mask(one) for one in node.arguments]
            return masks[0].op(_LOGIC[node.head], masks[1] if len(masks) > 1 else self.v.all_set)
        return _TESTS[node.head](operands[0])

    def _mask(self, node: Node) -> Term:
        if node in self._masks:
            return self._masks[node]
        return self._done[node].differs(0.0)

    def _extreme(self, node: Node, operands: list[Term]) -> Term:
        """The smaller or larger one; NaN of either is handed on."""
        predicate = "ogt" if node.head == "max" else "olt"
        a, b = operands
        if node.arguments[1].head == "constant":
            a, b = b, a
        chosen = a.compare(predicate, b).choose(a, b)  # b where b is NaN
        if "constant" in (node.arguments[0].head, node.arguments[1].head):
            return chosen
        return a.is_nan().choose(a, chosen)
