"""Cast between numbers: floats that do not fit, and NaN, give the smallest integer, as x86 processors have it."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import each_vector, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch
from tazza.ops.shape.cast import CAST
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads size", addresses="X Y")
UNIT = 64
"""Borders between threads lie at multiples of so many elements."""
BITS = {4: DataType.INT32, 8: DataType.INT64}
"""As what floats are looked at that become bools: what is computed with counts denormals as 0, which they are not."""


def write_cast(lines: Lines, source: DataType, target: DataType) -> None:
    """Write Y = X, as another type."""
    count = lane_count(8 * max(source.itemsize, target.itemsize))
    looks = source.is_float and target is DataType.BOOL
    x, y = Vector(lines, count, BITS[source.itemsize] if looks else source), Vector(lines, count, target)
    w = BLOCK.loaded(lines)

    def some(i: Term, mask: Term | None) -> None:
        value = x.load(w.X, i, mask)
        if looks:
            value <<= 1  # without the sign of a zero
        rounds = x.dtype.is_float and not target.is_float
        y.store(_whole(x, value, target) if rounds else x.converted(value, target), w.Y, i, mask)

    each_vector(x, *share(lines, w.size, UNIT), some)


def _whole(x: Vector, value: Term, target: DataType) -> Term:
    """Return floats without fractions: int64 or int32, and of smaller types what these have in their low bits."""
    wide = Vector(x.lines, x.count, DataType.INT64 if target is DataType.INT64 else DataType.INT32)
    behind = 2.0 ** (8 * wide.dtype.itemsize - 1)
    near = value.to(wide.scalar)  # undefined where it does not fit: not taken there
    fits = (value < behind) & (value >= -behind)
    return wide.converted(fits.choose(near, -behind), target)


@native(CAST)
def prepare_cast(X: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile the conversion."""
    threads = threads_of(X.size, 4, X.dtype.itemsize + Y.dtype.itemsize)
    told = f"cast {X.dtype.label} {Y.dtype.label}"
    address = SOURCES.compiled(told, lambda lines: write_cast(lines, X.dtype, Y.dtype))
    return BlockLaunch(address, BLOCK.words(threads=threads, size=X.size))
