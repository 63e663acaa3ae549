"""Runs kernels for GPUs on the CPU: one thread after the other, or as threads of the system where these meet.

On a GPU nobody says which thread comes first. `backwards` lets the last one do so: a kernel whose threads hang on each
other then gives other numbers.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tazza.codegen.nvptx import BARRIER, BLOCK, EXCHANGE, MEETING, OUTSIDE, THREAD, WARP_BARRIER, thread_text
from tazza.runtime.native_code import llvm_binding

SYSTEM: Any = ctypes.CDLL(None)
STACK_BYTES = 1 << 18
PATIENCE_S = 30.0
"""How long threads may wait for each other."""


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


COMMON = ("barrier", "given", "threads", "blocks", "words", "faults", "meetings")
"""What threads that run together share, in words: two rows of numbers that they exchange, the kernel's block, how often
not all of a warp were asked to come, and for each block of threads how often these met."""
OWN = ("common", "thread", "block", "turn")
"""What a thread knows, in words; `turn` is the row in which it gives numbers next."""


def _at(struct: tuple[str, ...], where: str, word: str, *, into: str = "i64", to: str = "") -> str:
    """Return the line that reads a word of COMMON or OWN into `%word`."""
    name = to if to else word
    place = f"  %at.{name} = getelementptr i64, ptr %{where}, i64 {struct.index(word)}\n"
    return f"{place}  %{name} = load {into}, ptr %at.{name}"


_OWN_STATE = """  %own = call ptr @pthread_getspecific(i32 KEY)"""
TOGETHER = f"""
declare i32 @pthread_barrier_wait(ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
define internal i32 @together.word(i64 %which) {{
{_OWN_STATE}
  %at = getelementptr i64, ptr %own, i64 %which
  %word = load i64, ptr %at
  %narrow = trunc i64 %word to i32
  ret i32 %narrow
}}
define i32 @{OUTSIDE[THREAD]}() {{
  %t = call i32 @together.word(i64 {OWN.index("thread")})
  ret i32 %t
}}
define i32 @{OUTSIDE[BLOCK]}() {{
  %b = call i32 @together.word(i64 {OWN.index("block")})
  ret i32 %b
}}
define internal void @together.blame(ptr %common, i1 %right) {{
  %wrong = xor i1 %right, true
  %more = zext i1 %wrong to i64
  %at = getelementptr i64, ptr %common, i64 {COMMON.index("faults")}
  %former = atomicrmw add ptr %at, i64 %more monotonic
  ret void
}}
define void @{OUTSIDE[BARRIER]}() {{
entry:
{_OWN_STATE}
{_at(OWN, "own", "common", into="ptr")}
{_at(COMMON, "common", "barrier", into="ptr")}
  %answer = call i32 @pthread_barrier_wait(ptr %barrier)
  %chosen = icmp ne i32 %answer, 0
  br i1 %chosen, label %count, label %end
count:
{_at(OWN, "own", "block")}
{_at(COMMON, "common", "meetings", into="ptr")}
  %at.met = getelementptr i64, ptr %meetings, i64 %block
  %met = load i64, ptr %at.met
  %more = add i64 %met, 1
  store i64 %more, ptr %at.met
  br label %end
end:
  ret void
}}
define void @{OUTSIDE[WARP_BARRIER]}(i32 %mask) {{
{_OWN_STATE}
{_at(OWN, "own", "common", into="ptr")}
  %right = icmp eq i32 %mask, -1
  call void @together.blame(ptr %common, i1 %right)
{_at(COMMON, "common", "barrier", into="ptr")}
  %answer = call i32 @pthread_barrier_wait(ptr %barrier)
  ret void
}}
define i32 @{OUTSIDE[EXCHANGE]}(i32 %mask, i32 %value, i32 %distance, i32 %clamp) {{
{_OWN_STATE}
{_at(OWN, "own", "common", into="ptr")}
  %all = icmp eq i32 %mask, -1
  %whole = icmp eq i32 %clamp, 31
  %right = and i1 %all, %whole
  call void @together.blame(ptr %common, i1 %right)
{_at(COMMON, "common", "given", into="ptr")}
{_at(COMMON, "common", "threads")}
{_at(OWN, "own", "thread")}
{_at(OWN, "own", "turn")}
  %other = xor i64 %turn, 1
  store i64 %other, ptr %at.turn
  %first = mul i64 %turn, %threads
  %mine = add i64 %first, %thread
  %at.mine = getelementptr i32, ptr %given, i64 %mine
  store i32 %value, ptr %at.mine
{_at(COMMON, "common", "barrier", into="ptr")}
  %answer = call i32 @pthread_barrier_wait(ptr %barrier)
  %far = zext i32 %distance to i64
  %whose = xor i64 %thread, %far
  %theirs = add i64 %first, %whose
  %at.theirs = getelementptr i32, ptr %given, i64 %theirs
  %found = load i32, ptr %at.theirs
  ret i32 %found
}}
define ptr @all(ptr %own) {{
entry:
  %known = call i32 @pthread_setspecific(i32 KEY, ptr %own)
{_at(OWN, "own", "common", into="ptr")}
{_at(COMMON, "common", "barrier", into="ptr")}
{_at(COMMON, "common", "blocks")}
{_at(COMMON, "common", "words", into="ptr")}
  %at.block = getelementptr i64, ptr %own, i64 {OWN.index("block")}
  %any = icmp sgt i64 %blocks, 0
  br i1 %any, label %one, label %end
one:
  %b = phi i64 [ 0, %entry ], [ %next, %one ]
  store i64 %b, ptr %at.block
  call void @NAME(ptr %words)
  %answer = call i32 @pthread_barrier_wait(ptr %barrier)
  %next = add i64 %b, 1
  %more = icmp slt i64 %next, %blocks
  br i1 %more, label %one, label %end
end:
  ret ptr null
}}
"""
"""Each thread of a block is one of the system; what it asks is answered from what it alone knows. What a block shares
is used by the next one, so all meet between two blocks. Exchanged numbers lie in two rows in turn: one meeting will do.
"""


@contextmanager
def backwards() -> Generator[None]:
    """Let the last thread of the last block come first, until the block ends."""
    ORDER.backwards = True
    try:
        yield
    finally:
        ORDER.backwards = False


def _declares(line: str, names: Sequence[str]) -> bool:
    return line.startswith("declare") and any(name in line for name in names)


@functools.cache
def _key() -> int:
    """Return what threads of the system know their own words by."""
    key = ctypes.c_uint32()
    assert SYSTEM.pthread_key_create(ctypes.byref(key), None) == 0
    return key.value


class Grid:
    """A kernel's text, ready to be run by a grid."""

    def __init__(self, text: str, name: str) -> None:
        """Compile it."""
        self.meets = any(f"@{one}(" in text for one in MEETING)
        asked = tuple(f"@{one}(" for one in OUTSIDE.values())
        lines = thread_text(text).splitlines()
        cpu = "\n".join(line for line in lines if not _declares(line, asked))
        cpu += (TOGETHER.replace("KEY", str(_key())) if self.meets else ONE_BY_ONE).replace("NAME", name)
        llvm: Any = llvm_binding()
        module = llvm.parse_assembly(cpu)
        module.verify()
        host = {"cpu": llvm.get_host_cpu_name(), "features": llvm.get_host_cpu_features().flatten()}
        machine = llvm.Target.from_default_triple().create_target_machine(**host, opt=1, jit=True)
        self._engine: Any = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        kinds = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32
        self._all = ctypes.CFUNCTYPE(None, *kinds)(self._engine.get_function_address("all"))

    def __call__(self, blocks: int, threads: int, words: Sequence[int]) -> None:
        """Run all threads of all blocks."""
        block = (ctypes.c_int64 * max(1, len(words)))(*words)
        if self.meets:
            self._run_together(blocks, threads, block)
        else:
            self._all(block, blocks, threads, int(ORDER.backwards))

    def _run_together(self, blocks: int, threads: int, block: Any) -> None:
        barrier = ctypes.create_string_buffer(64)  # more than any system's
        assert SYSTEM.pthread_barrier_init(barrier, None, threads) == 0
        given, meetings = (ctypes.c_int32 * (2 * threads))(), (ctypes.c_int64 * max(1, blocks))()
        addresses = {name: ctypes.addressof(one) for name, one in (("barrier", barrier), ("given", given))}
        addresses |= {"words": ctypes.addressof(block), "meetings": ctypes.addressof(meetings)}
        shared = addresses | {"threads": threads, "blocks": blocks, "faults": 0}
        common = (ctypes.c_int64 * len(COMMON))(*(shared[name] for name in COMMON))
        own = [(ctypes.c_int64 * len(OWN))(ctypes.addressof(common), number, 0, 0) for number in range(threads)]
        _join([_started(self._all, one) for one in own])
        SYSTEM.pthread_barrier_destroy(barrier)
        assert common[COMMON.index("faults")] == 0, "all threads of the warp come"
        MEETINGS.extend(number for number, met in enumerate(meetings) for _ in range(met))


@functools.cache
def _attributes() -> Any:
    """Return what threads are started with: little of a stack, since there are many."""
    found = ctypes.create_string_buffer(64)
    assert SYSTEM.pthread_attr_init(found) == 0
    assert SYSTEM.pthread_attr_setstacksize(found, ctypes.c_size_t(STACK_BYTES)) == 0
    return found


def _started(function: Any, own: Any) -> ctypes.c_ulong:
    thread = ctypes.c_ulong()
    assert SYSTEM.pthread_create(ctypes.byref(thread), _attributes(), function, own) == 0, "no more threads"
    return thread


def _join(threads: Sequence[ctypes.c_ulong]) -> None:
    """Wait until all have come to their end."""
    until = (ctypes.c_long * 2)(int(time.time() + PATIENCE_S), 0)
    for one in threads:
        assert SYSTEM.pthread_timedjoin_np(one, None, until) == 0, "threads wait for some that do not come"


@functools.cache
def grid_of(text: str, name: str) -> Grid:
    """Return a kernel, compiled once in a process."""
    return Grid(text, name)
