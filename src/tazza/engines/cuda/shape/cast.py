"""Cast, and float32 to 16 bits and back: a thread for each element, between all types that kernels load.

What does not fit is as on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast as as_type

from tazza.codegen.block import Slot, accepts_rows
from tazza.codegen.rows import element
from tazza.codegen.typed import MEMORY, Vector
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.quantized.half import conversions
from tazza.ops.shape.cast import CAST
from tazza.tensor import DataType, TensorSpec


@launcher(CAST, engine=KIND, device=KIND, accepts=accepts_rows)
def prepare_cast(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
    """Compile the conversion."""
    del op, context
    X, Y = as_type("tuple[TensorSpec, TensorSpec]", (inputs[0], outputs[0]))
    for dtype in (X.dtype, Y.dtype):
        if dtype not in MEMORY:
            return Unsupported(f"{dtype.label} is not compiled")

    def write(t: Threads, i: str) -> None:
        value = _converted(t, Vector(t.lines, 1, X.dtype), i, Y.dtype)
        Vector(t.lines, 1, Y.dtype).store(value, t.pointer("Y"), i, None)

    return each_launch(f"cast {X.dtype.label} {Y.dtype.label}", Y.size, {"X": Slot("X"), "Y": Slot("Y")}, write)


def _converted(t: Threads, source: Vector, i: str, target: DataType) -> str:
    """Return element i of X in another type; by way of float64 and int64 where floats become integers."""
    x = source.load_one(element(t.lines, t.pointer("X"), i, MEMORY[source.dtype]))
    if not source.dtype.is_float or target.is_float or target is DataType.BOOL:
        return source.converted(x, target)
    middle = DataType.INT64 if target.itemsize == 8 else DataType.INT32
    wide, whole = t.wide, Vector(t.lines, 1, middle)
    least = -(2.0 ** (8 * middle.itemsize - 1))
    value = source.converted(x, DataType.DOUBLE)
    above, below = wide.compare("oge", value, wide.constant(least)), wide.compare("olt", value, wide.constant(-least))
    fits = t.lines.let(f"and {wide.mask} {above}, {below}")
    near = t.lines.let(
        f"fptosi {wide.type} {value} to {whole.type}"
    )  # undefined where it does not fit, not taken there
    return whole.converted(whole.select(fits, near, whole.constant(int(least))), target)


for _schema in conversions.schemas:
    launcher(_schema, engine=KIND, device=KIND, accepts=accepts_rows)(prepare_cast)
