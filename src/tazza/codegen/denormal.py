"""Denormals as numbers, in kernels that pick places: elsewhere they count as 0, which would be a tie with 0."""

from __future__ import annotations

from collections.abc import Callable

from tazza.codegen.term import Lines
from tazza.runtime.segment import FLUSH, can_flush


def with_denormals(lines: Lines, body: Callable[[], object]) -> None:
    """Write `body`, in which this thread tells denormals from 0, and then what it did before."""
    if not can_flush():
        body()
        return
    before, now = lines.room("i32"), lines.room("i32")
    lines.call_for_effect("llvm.x86.sse.stmxcsr", before)
    exact = before.load() & (0xFFFFFFFF ^ FLUSH)
    now.store(exact)
    lines.call_for_effect("llvm.x86.sse.ldmxcsr", now)
    body()
    lines.call_for_effect("llvm.x86.sse.ldmxcsr", before)
