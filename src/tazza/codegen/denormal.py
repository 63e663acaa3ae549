"""Denormals as numbers, in kernels that pick places: elsewhere they count as 0, which would be a tie with 0."""

from __future__ import annotations

from collections.abc import Callable

from tazza.codegen.emit import Lines
from tazza.runtime.segment import FLUSH, can_flush


def with_denormals(lines: Lines, body: Callable[[], object]) -> None:
    """Write `body`, in which this thread tells denormals from 0, and then what it did before."""
    if not can_flush():
        body()
        return
    lines.declare("void @llvm.x86.sse.stmxcsr(ptr)")
    lines.declare("void @llvm.x86.sse.ldmxcsr(ptr)")
    before, now = lines.let("alloca i32"), lines.let("alloca i32")
    lines.do(f"call void @llvm.x86.sse.stmxcsr(ptr {before})")
    exact = lines.let(f"and i32 {lines.let(f'load i32, ptr {before}')}, {0xFFFFFFFF ^ FLUSH}")
    lines.do(f"store i32 {exact}, ptr {now}")
    lines.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {now})")
    body()
    lines.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {before})")
