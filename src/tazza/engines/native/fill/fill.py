"""ConstantFill: one pattern of bytes, written eight bytes at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import count_loop, share
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.fill.fill import CONSTANT_FILL
from tazza.runtime.native_code import processor
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

WORD = 8
"""Bytes of the pattern; every element size divides it."""


@launcher(CONSTANT_FILL, engine="native", accepts=lambda letter, spec: True)
def prepare_constant_fill(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile ConstantFill."""
    del context, inputs
    Y = cast("TensorSpec", outputs[0])
    if Y.dtype is DataType.STRING:
        return Unsupported("text is not compiled")
    if op.has_input("V"):
        return Unsupported("a value that is an input is not compiled")
    value = np.zeros((), Y.dtype.numpy) if op.value is None else np.array(op.value).astype(Y.dtype.numpy)
    pattern = int(np.frombuffer(value.tobytes() * (WORD // Y.dtype.itemsize), np.int64)[0])
    threads = threads_for(thread_count(), Y.nbytes, 0, 1)
    return BlockLaunch(SOURCES.compiled("fill", _fill), (threads, Y.nbytes, pattern, Slot("Y")))


def _fill(lines: Lines) -> None:
    """Whole vectors, shared by the threads; the last one writes what is left byte by byte."""
    nbytes, pattern, Y = lines.load_word("%block", 1), lines.load_word("%block", 2), lines.load_pointer("%block", 3)
    width = processor().vector_bytes
    kind = f"<{width // WORD} x i64>"
    first = lines.let(f"insertelement {kind} poison, i64 {pattern}, i32 0")
    full = lines.let(f"shufflevector {kind} {first}, {kind} poison, <{width // WORD} x i32> zeroinitializer")
    vectors = lines.let(f"udiv i64 {nbytes}, {width}")
    begin, end = share(lines, vectors)

    def whole(i: str) -> None:
        at = lines.let(f"getelementptr {kind}, ptr {Y}, i64 {i}")
        lines.do(f"store {kind} {full}, ptr {at}, align 1")

    count_loop(lines, begin, end, whole)
    is_last = lines.let(f"icmp eq i64 {end}, {vectors}")
    done = lines.let(f"select i1 {is_last}, i64 {lines.let(f'mul i64 {vectors}, {width}')}, i64 {nbytes}")

    def byte(i: str) -> None:
        shift = lines.let(f"shl i64 {lines.let(f'urem i64 {i}, {WORD}')}, 3")
        value = lines.let(f"trunc i64 {lines.let(f'lshr i64 {pattern}, {shift}')} to i8")
        lines.do(f"store i8 {value}, ptr {lines.let(f'getelementptr i8, ptr {Y}, i64 {i}')}")

    count_loop(lines, done, nbytes, byte)
