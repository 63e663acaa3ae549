"""Range: counted in whole numbers, then times the step, plus the start, each rounded as elements are."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import each_vector, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.typed_function import joined
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.shape.range import RANGE
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads count", addresses="Y start step")
COUNTED = 2**31
"""The first number to which 32 bits cannot count."""


def write_range(lines: Lines, dtype: DataType, *, start: bool, step: bool) -> None:
    """Write Y[i] = start + i step; one that is not there is 0, or 1."""
    y = Vector(lines, lane_count(8 * dtype.itemsize), dtype)
    counter = Vector(lines, y.count, DataType.INT64 if dtype.itemsize == 8 else DataType.INT32)
    at = BLOCK.lazily(lines)
    target, first, by = at.Y, y.load_one(at.start) if start else None, y.load_one(at.step) if step else None

    def some(i: Term, mask: Term | None) -> None:
        value = counter.converted(counter.counted(i, 1), dtype)
        value = value if by is None else joined(y, "mul", value, by)
        y.store(value if first is None else joined(y, "add", first, value), target, i, mask)

    each_vector(y, *share(lines, at.count, y.count), some)


@native(RANGE)
def prepare_range(op: OpView, Y: TensorSpec) -> Launch:
    """Compile the fill; start and step are read in each run, so that others of as many numbers do as well."""
    dtype = Y.dtype
    if Y.size >= COUNTED and dtype.itemsize < 8:
        raise Unsupported(f"{Y.size} numbers are not counted in 32 bits")
    start, step = op.has_input("stop"), op.has_input("step")
    address = SOURCES.compiled(
        f"range {dtype.label} {start} {step}", lambda lines: write_range(lines, dtype, start=start, step=step)
    )
    words = BLOCK.words(
        **{"threads": threads_of(Y.size, 3, dtype.itemsize), "count": Y.size},
        **{"start": Slot("start") if start else 0, "step": Slot("step") if step else 0},
    )
    return BlockLaunch(address, words)
