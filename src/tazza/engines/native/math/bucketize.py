"""Bucketize: vectors of numbers beside one boundary after the other, or where there are many, by halving.

Boundaries are filled up with infinity, which lies below nothing, so that halving has one turn for each bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Constant, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import lane_count, threads_for
from tazza.codegen.loop import fold_loop, share, sweep
from tazza.codegen.typed import Vector
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, OpView, Spec, launcher
from tazza.ops.math.bucketize import BUCKETIZE
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

SIZE, COUNT, X, Y, BOUNDARIES = range(1, 6)
FEW, WIDE, UNIT = 256, 4, 64
"""Boundaries that are looked at one by one, and registers of numbers side by side."""
LOOK_FLOPS, HALVE_FLOPS = 0.3, 5
"""Of a number, for each boundary, and for each turn."""


@launcher(BUCKETIZE, engine="native", accepts=accepts_rows, batch_invariant=True)
def prepare_bucketize(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Compile the search for so many boundaries."""
    del context, outputs
    size = cast("TensorSpec", inputs[0]).size
    boundaries = np.array(op.boundaries, np.float32)
    few = len(boundaries) <= FEW
    turns = len(boundaries).bit_length()
    if not few:
        boundaries = np.pad(boundaries, (0, 2**turns - len(boundaries)), constant_values=np.inf)
    flops = LOOK_FLOPS * len(boundaries) if few else HALVE_FLOPS * turns
    threads = threads_for(thread_count(), size, flops, 8)
    told = "few boundaries" if few else f"boundaries of {turns} bits"
    write = _look if few else partial(_halve, turns=turns)
    words = (threads, size, len(boundaries), Slot("X"), Slot("Y"), Constant(boundaries.tobytes()))
    return BlockLaunch(SOURCES.compiled(told, write), words)


def _vectors(lines: Lines, registers: int) -> tuple[Vector, Vector]:
    count = registers * lane_count()
    return Vector(lines, count, DataType.FLOAT), Vector(lines, count, DataType.INT32)


def _look(lines: Lines) -> None:
    """Count the boundaries below each number."""
    given, whole = _vectors(lines, WIDE)
    count = lines.load_word("%block", COUNT)
    source, target, table = (lines.load_pointer("%block", word) for word in (X, Y, BOUNDARIES))

    def some(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
        x = given.load(source, i, mask)

        def more(k: str, found: str) -> str:
            boundary = given.load_one(lines.let(f"getelementptr float, ptr {table}, i64 {k}"))
            below = given.lanes.compare("olt", boundary, x)
            return whole.select(below, lines.let(f"add {whole.type} {found}, {whole.constant(1)}"), found)

        whole.store(fold_loop(whole, "0", count, whole.constant(0), more), target, i, mask)
        return carried

    sweep(given, *share(lines, lines.load_word("%block", SIZE), UNIT), some)


def _halve(lines: Lines, *, turns: int) -> None:
    """Find the number of boundaries below each number bit by bit, from the highest on."""
    given, whole = _vectors(lines, 1)
    source, target, table = (lines.load_pointer("%block", word) for word in (X, Y, BOUNDARIES))
    kind = f"<{given.count} x ptr>"
    name = f"@llvm.masked.gather.v{given.count}f32.v{given.count}p0"
    lines.declare(f"{given.type} {name}({kind}, i32, {given.lanes.mask}, {given.type})")

    def some(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
        x, found = given.load(source, i, mask), whole.constant(0)
        for turn in reversed(range(turns)):
            more = lines.let(f"or {whole.type} {found}, {whole.constant(2**turn)}")
            last = lines.let(f"sub {whole.type} {more}, {whole.constant(1)}")
            places = lines.let(f"getelementptr float, ptr {table}, {whole.type} {last}")
            operands = f"{kind} {places}, i32 4, {given.lanes.mask} {given.lanes.all_set}, {given.type} zeroinitializer"
            boundary = lines.let(f"call {given.type} {name}({operands})")
            found = whole.select(given.lanes.compare("olt", boundary, x), more, found)
        whole.store(found, target, i, mask)
        return carried

    sweep(given, *share(lines, lines.load_word("%block", SIZE), UNIT), some)
