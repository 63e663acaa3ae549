"""Mod, by quotients in float64: up to 2^52 they are at most one off, and what is larger is divided as it is."""

from __future__ import annotations

from functools import partial

from tazza.codegen.block import BlockLaunch
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import each_vector, share
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.math.mod import MOD
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads size divisor", doubles="inexact", addresses="X Y")
EXACT = 2**52
"""Smaller whole numbers are exact in float64, and so are their quotients but for the last unit."""
FLOPS = 20


@native(MOD, batch_invariant=True)
def prepare_mod(op: OpView, X: TensorSpec) -> Launch | Unsupported:
    """Compile Mod of this divisor."""
    divisor = int(op.divisor)
    if abs(divisor) >= EXACT:
        return Unsupported(f"divisor = {divisor}: it computes with those below 2^52")
    threads = threads_of(X.size, FLOPS, 2 * X.dtype.itemsize)
    sign = 0 if not op.sign_follow_divisor else 1 if divisor > 0 else -1
    write = partial(_write, dtype=X.dtype, sign=sign)
    address = SOURCES.compiled(f"mod of {X.dtype.label}, sign {sign}", write)
    return BlockLaunch(address, BLOCK.words(threads=threads, size=X.size, divisor=abs(divisor), inexact=abs(divisor)))


def _write(lines: Lines, *, dtype: DataType, sign: int) -> None:
    """Y = what is left of |X|, with the sign of X, or (1, -1) that of the divisor."""
    count = lane_count(64)
    given, whole, wide = (Vector(lines, count, kind) for kind in (dtype, DataType.INT64, DataType.DOUBLE))
    at = BLOCK.read(lines)
    X, Y, divisor = at.X, at.Y, whole.full(at.divisor)
    inverse = wide.div(wide.constant(1.0), wide.of_double(at.inexact))
    zero = whole.constant(0)

    def op(name: str, a: str, b: str) -> str:
        return lines.let(f"{name} {whole.type} {a}, {b}")

    def left(size: str) -> str:
        """Return size mod divisor for 0 <= size < 2^52."""
        quotient = wide.intrinsic("floor", wide.mul(whole.converted(size, DataType.DOUBLE), inverse))
        rest = op("sub", size, op("mul", wide.converted(quotient, DataType.INT64), divisor))
        rest = whole.select(op("icmp slt", rest, zero), op("add", rest, divisor), rest)
        return whole.select(op("icmp sge", rest, divisor), op("sub", rest, divisor), rest)

    def some(i: str, mask: str | None) -> None:
        x = given.converted(given.load(X, i, mask), DataType.INT64)
        below = op("icmp slt", x, zero)
        size = whole.select(below, op("sub", zero, x), x)
        usual = wide.of_bits(left(size))
        large = op("icmp uge", size, whole.constant(EXACT))
        rest = wide.rarely(large, usual, lambda: wide.of_bits(op("urem", size, divisor)))
        rest = wide.bits_of(rest)
        rest = whole.select(below, op("sub", zero, rest), rest)
        if sign:
            other = op("icmp slt" if sign > 0 else "icmp sgt", rest, zero)
            rest = whole.select(other, op("add" if sign > 0 else "sub", rest, divisor), rest)
        given.store(whole.converted(rest, dtype), Y, i, mask)

    each_vector(given, *share(lines, at.size, count), some)
