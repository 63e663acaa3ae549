"""Mod, by quotients in float64: up to 2^52 they are at most one off, and what is larger is divided as it is."""

from __future__ import annotations

from functools import partial

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import each_vector, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.math.mod import MOD
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads size divisor", doubles="inexact", addresses="X Y")
EXACT = 2**52
"""Smaller whole numbers are exact in float64, and so are their quotients but for the last unit."""
FLOPS = 20


@native(MOD, batch_invariant=True)
def prepare_mod(op: OpView, X: TensorSpec) -> Launch:
    """Compile Mod of this divisor."""
    divisor = int(op.divisor)
    if abs(divisor) >= EXACT:
        raise Unsupported(f"divisor = {divisor}: it computes with those below 2^52")
    threads = threads_of(X.size, FLOPS, 2 * X.dtype.itemsize)
    sign = 0 if not op.sign_follow_divisor else 1 if divisor > 0 else -1
    write = partial(_write, dtype=X.dtype, sign=sign)
    address = SOURCES.compiled(f"mod of {X.dtype.label}, sign {sign}", write)
    return BlockLaunch(address, BLOCK.words(threads=threads, size=X.size, divisor=abs(divisor), inexact=abs(divisor)))


def _write(lines: Lines, *, dtype: DataType, sign: int) -> None:
    """Y = what is left of |X|, with the sign of X, or (1, -1) that of the divisor."""
    count = lane_count(64)
    given, whole, wide = (Vector(lines, count, kind) for kind in (dtype, DataType.INT64, DataType.DOUBLE))
    at = BLOCK.lazily(lines)
    X, Y, divisor = at.X, at.Y, whole.full(at.divisor)
    inverse = 1.0 / wide.full(at.inexact)

    def left(size: Term) -> Term:
        """Return size mod divisor for 0 <= size < 2^52."""
        quotient = (whole.converted(size, DataType.DOUBLE) * inverse).intrinsic("floor")
        rest = size - wide.converted(quotient, DataType.INT64) * divisor
        rest = (rest < 0).choose(rest + divisor, rest)
        return (rest >= divisor).choose(rest - divisor, rest)

    def some(i: Term, mask: Term | None) -> None:
        x = given.converted(given.load(X, i, mask), DataType.INT64)
        below = x < 0
        size = below.choose(-x, x)
        usual = left(size).as_floats()
        large = size.outside(EXACT)
        rest = large.rarely(lambda: (size % divisor).as_floats(), usual).as_bits()
        rest = below.choose(-rest, rest)
        if sign:
            other = rest < 0 if sign > 0 else rest > 0
            rest = other.choose(rest + divisor if sign > 0 else rest - divisor, rest)
        given.store(whole.converted(rest, dtype), Y, i, mask)

    each_vector(given, *share(lines, at.size, count), some)
