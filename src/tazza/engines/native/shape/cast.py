"""Cast of float32 to int32: numbers that do not fit, and NaN, give the smallest, as x86 processors have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast as as_type

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import lanes_of, load, share, sweep
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.cast import CAST
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

BEHIND = 2.0**31
"""The first number that does not fit."""
LEAST = -(2**31)


def write_cast(lines: Lines) -> None:
    """Write Y = X without fractions."""
    v = lanes_of(lines)
    kind, short = f"<{v.count} x i32>", f"v{v.count}i32"
    X, Y = (lines.load_pointer("%block", word) for word in (2, 3))
    begin, end = share(lines, lines.load_word("%block", 1), v.count)
    lines.declare(f"void @llvm.masked.store.{short}.p0({kind}, ptr, i32, {v.mask})")

    def some(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
        del carried
        x = load(v, DataType.FLOAT, X, i, mask)
        near = lines.let(f"fptosi {v.type} {x} to {kind}")  # undefined where it does not fit, and not taken there
        below, above = v.compare("olt", x, v.constant(BEHIND)), v.compare("oge", x, v.constant(-BEHIND))
        fits = lines.let(f"and {v.mask} {below}, {above}")
        y = lines.let(f"select {v.mask} {fits}, {kind} {near}, {kind} splat (i32 {LEAST})")
        at = lines.let(f"getelementptr i32, ptr {Y}, i64 {i}")
        if mask is None:
            lines.do(f"store {kind} {y}, ptr {at}, align 4")
        else:
            lines.do(f"call void @llvm.masked.store.{short}.p0({kind} {y}, ptr {at}, i32 4, {v.mask} {mask})")
        return ()

    sweep(v, begin, end, some)


@launcher(CAST, engine="native", accepts=accepts_rows)
def prepare_cast(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
    """Compile the conversion."""
    del op, context
    X, Y = as_type("tuple[TensorSpec, TensorSpec]", (inputs[0], outputs[0]))
    if (X.dtype, Y.dtype) != (DataType.FLOAT, DataType.INT32):
        return Unsupported(f"float32 to int32 is compiled, not {X.dtype.label} to {Y.dtype.label}")
    threads = threads_for(thread_count(), X.size, 4, 8)
    return BlockLaunch(SOURCES.compiled("cast", write_cast), (threads, X.size, Slot("X"), Slot("Y")))
