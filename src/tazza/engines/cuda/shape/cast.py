"""Cast, and float32 to 16 bits and back: a thread for each element, between all types that kernels load.

What does not fit is as on the CPU.
"""

from __future__ import annotations

from tazza.codegen.term import Term
from tazza.codegen.vector import MEMORY, Vector
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Launch, Unsupported
from tazza.ops.quantized.half import conversions
from tazza.ops.shape.cast import CAST
from tazza.tensor import DataType, TensorSpec


@translated(CAST, *conversions.schemas)
def cast(X: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile the conversion."""
    for dtype in (X.dtype, Y.dtype):
        if dtype not in MEMORY:
            raise Unsupported(f"{dtype.label} is not compiled")

    def write(t: Threads, i: Term) -> None:
        value = _converted(t, Vector(t.lines, 1, X.dtype), i, Y.dtype)
        Vector(t.lines, 1, Y.dtype).store(value, t.pointer("Y"), i, None)

    return each_launch(f"cast {X.dtype.label} {Y.dtype.label}", Y.size, addresses("X", "Y"), write)


def _converted(t: Threads, source: Vector, i: Term, target: DataType) -> Term:
    """Return element i of X in another type; by way of float64 and int64 where floats become integers."""
    x = source.load_one(t.pointer("X").of(MEMORY[source.dtype]).at(i))
    if not source.dtype.is_float or target.is_float or target is DataType.BOOL:
        return source.converted(x, target)
    middle = DataType.INT64 if target.itemsize == 8 else DataType.INT32
    whole = Vector(t.lines, 1, middle)
    least = -(2.0 ** (8 * middle.itemsize - 1))
    value = source.converted(x, DataType.DOUBLE)
    fits = (value >= least) & (value < -least)
    near = value.to(whole.scalar)  # undefined where it does not fit, not taken there
    return whole.converted(fits.choose(near, int(least)), target)
