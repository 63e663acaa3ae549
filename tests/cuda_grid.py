"""Runs kernels for GPUs on the CPU: one thread after the other, or as threads of the system where these meet.

On a GPU nobody says which thread comes first. `backwards` lets the last one do so: a kernel whose threads hang on each
other then gives other numbers.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tazza.codegen.nvptx import BARRIER, BLOCK, EXCHANGE, MEETING, OUTSIDE, THREAD, WARP_BARRIER, thread_text
from tazza.runtime.native_code import llvm_binding

_here = threading.local()


@dataclass(slots=True)
class _Order:
    """Which thread comes first."""

    backwards: bool = False


ORDER = _Order()
MEETINGS: list[int] = []
"""The block of each meeting of its threads."""

ONE_BY_ONE = f"""
@now.thread = internal global i32 0
@now.block = internal global i32 0
define i32 @{OUTSIDE[THREAD]}() {{
  %t = load i32, ptr @now.thread
  ret i32 %t
}}
define i32 @{OUTSIDE[BLOCK]}() {{
  %b = load i32, ptr @now.block
  ret i32 %b
}}
define void @all(ptr %block, i32 %blocks, i32 %threads, i32 %backwards) {{
entry:
  %turned = icmp ne i32 %backwards, 0
  %last.b = sub i32 %blocks, 1
  %last.t = sub i32 %threads, 1
  %some = mul i32 %blocks, %threads
  %any = icmp sgt i32 %some, 0
  br i1 %any, label %one, label %end
one:
  %b = phi i32 [ 0, %entry ], [ %next.b, %one ]
  %t = phi i32 [ 0, %entry ], [ %next.t, %one ]
  %other.b = sub i32 %last.b, %b
  %other.t = sub i32 %last.t, %t
  %this.b = select i1 %turned, i32 %other.b, i32 %b
  %this.t = select i1 %turned, i32 %other.t, i32 %t
  store i32 %this.b, ptr @now.block
  store i32 %this.t, ptr @now.thread
  call void @NAME(ptr %block)
  %t1 = add i32 %t, 1
  %over = icmp eq i32 %t1, %threads
  %next.t = select i1 %over, i32 0, i32 %t1
  %b1 = add i32 %b, 1
  %next.b = select i1 %over, i32 %b1, i32 %b
  %more = icmp slt i32 %next.b, %blocks
  br i1 %more, label %one, label %end
end:
  ret void
}}
"""


@contextmanager
def backwards() -> Generator[None]:
    """Let the last thread of the last block come first, until the block ends."""
    ORDER.backwards = True
    try:
        yield
    finally:
        ORDER.backwards = False


@functools.cache
def _answers() -> list[Any]:
    """Tell LLVM what kernels ask while they run; returns what has to live."""

    def meet() -> None:
        if _here.gate.wait() == 0:
            MEETINGS.append(_here.block)

    def meet_in_warp(mask: int) -> None:
        assert mask == -1, "all threads of the warp come"
        _here.gate.wait()

    def exchange(mask: int, value: int, distance: int, clamp: int) -> int:
        """Give what the other thread has: each time in the other of two rows, so that one meeting is enough."""
        assert (mask, clamp) == (-1, 31), "all threads of the warp come"
        _here.turn ^= 1
        given = _here.given[_here.turn]
        given[_here.thread] = value
        _here.gate.wait()
        return given[_here.thread ^ distance]

    answers: dict[str, Any] = {
        THREAD: ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: _here.thread),
        BLOCK: ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: _here.block),
        BARRIER: ctypes.CFUNCTYPE(None)(meet),
        WARP_BARRIER: ctypes.CFUNCTYPE(None, ctypes.c_int32)(meet_in_warp),
        EXCHANGE: ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int32] * 4)(exchange),
    }
    assert answers.keys() == OUTSIDE.keys()
    llvm: Any = llvm_binding()
    for name, answer in answers.items():
        llvm.add_symbol(OUTSIDE[name], ctypes.cast(answer, ctypes.c_void_p).value)
    return list(answers.values())


class Grid:
    """A kernel's text, ready to be run by a grid."""

    def __init__(self, text: str, name: str) -> None:
        """Compile it."""
        self.meets = any(f"@{one}(" in text for one in MEETING)
        self._kept: list[Any] = [_answers()]
        cpu = thread_text(text)
        if not self.meets:
            declared = [f"declare i32 @{OUTSIDE[known]}()" for known in (THREAD, BLOCK)]
            cpu = "\n".join(line for line in cpu.splitlines() if line not in declared)
            cpu += ONE_BY_ONE.replace("NAME", name)
        llvm: Any = llvm_binding()
        module = llvm.parse_assembly(cpu)
        module.verify()
        host = {"cpu": llvm.get_host_cpu_name(), "features": llvm.get_host_cpu_features().flatten()}
        machine = llvm.Target.from_default_triple().create_target_machine(**host, opt=1, jit=True)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        self._kept.append(engine)
        if self.meets:
            self._one = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address(name))
        else:
            kinds = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32
            self._all = ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address("all"))

    def __call__(self, blocks: int, threads: int, words: Sequence[int]) -> None:
        """Run all threads of all blocks."""
        block = (ctypes.c_int64 * max(1, len(words)))(*words)
        if not self.meets:
            self._all(block, blocks, threads, int(ORDER.backwards))
            return
        gate = threading.Barrier(threads, timeout=30)
        given: tuple[list[int], list[int]] = [0] * threads, [0] * threads
        members = [
            threading.Thread(target=self._thread, args=(number, blocks, block, (gate, given)))
            for number in range(threads)
        ]
        for one in members:
            one.start()
        for one in members:
            one.join()

    def _thread(self, number: int, blocks: int, words: Any, common: Any) -> None:
        gate, _here.given = common
        _here.thread, _here.gate, _here.turn = number, gate, 0
        for block in range(blocks):
            _here.block = block
            self._one(words)
            gate.wait()  # what a block shares is used by the next one


@functools.cache
def grid_of(text: str, name: str) -> Grid:
    """Return a kernel, compiled once in a process."""
    return Grid(text, name)
