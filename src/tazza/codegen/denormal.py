"""Denormals as numbers, in kernels that pick places: elsewhere they count as 0, which would be a tie with 0."""

from __future__ import annotations

import platform
from collections.abc import Callable

from tazza.codegen.emit import Lines

FLUSHED = 0x8040
"""Bits 15 (results) and 6 (operands) of MXCSR. Source: Intel SDM, volume 1, 10.2.3."""


def with_denormals(lines: Lines, body: Callable[[], object]) -> None:
    """Write `body`, in which this thread tells denormals from 0, and then what it did before."""
    if platform.machine() not in ("x86_64", "AMD64"):
        body()
        return
    lines.declare("void @llvm.x86.sse.stmxcsr(ptr)")
    lines.declare("void @llvm.x86.sse.ldmxcsr(ptr)")
    before, now = lines.let("alloca i32"), lines.let("alloca i32")
    lines.do(f"call void @llvm.x86.sse.stmxcsr(ptr {before})")
    exact = lines.let(f"and i32 {lines.let(f'load i32, ptr {before}')}, {0xFFFFFFFF ^ FLUSHED}")
    lines.do(f"store i32 {exact}, ptr {now}")
    lines.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {now})")
    body()
    lines.do(f"call void @llvm.x86.sse.ldmxcsr(ptr {before})")
