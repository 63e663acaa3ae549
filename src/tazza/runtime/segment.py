"""Segments: native calls in a row as one call without the GIL, over a table.

    row, status = Segment(calls).run()        # (0, 0) is success, else the number of the row that failed, from 1

A row of the table is (function, a, b, c, d, threads), all int64; a function is `int64_t f(int64_t a, b, c, d)` whose
low 32 bits are a status. The loop is a few lines of LLVM IR, compiled once and cached on disk. Where nothing can be
compiled, the same table is run row by row from Python.

Denormals count as 0 while a segment runs, in the calling thread and in the OpenMP threads that work for it: gradients
that fade into them would take a hundred times as long. Where nothing is compiled, and on other processors than x86,
they are kept.

A segment is immutable but for its table of times; it may be run by several threads at once when its rows may, except
by `run_timed`.
"""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tazza.runtime.fork import PROCESS, check_threads
from tazza.runtime.native_code import native_function, source_digest, unavailable
from tazza.runtime.openmp import has_library_regions, library_parallel, openmp_address, openmp_unavailable
from tazza.runtime.threads import thread_count

STATUS = 0xFFFFFFFF
_FUNCTION = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)
_HEADER_WORDS = 5
FLUSH = 0x8040
"""Bits 15 (results) and 6 (operands) of MXCSR: denormals count as 0. Source: Intel SDM, volume 1, 10.2.3."""
_MXCSR = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""
_SET = f"""
  %mode = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %mode)
  %found = load i32, ptr %mode
  %flushing = or i32 %found, {FLUSH}
  store i32 %flushing, ptr %mode
  call void @llvm.x86.sse.ldmxcsr(ptr %mode)
"""
_RESTORE = """
  store i32 %found, ptr %mode
  call void @llvm.x86.sse.ldmxcsr(ptr %mode)
"""
_WORKERS = f"""{_MXCSR}
declare void @GOMP_parallel(ptr, ptr, i32, i32)

define void @{{name}}.one(ptr %unused) {{{{
{_SET}
  ret void
}}}}

define i64 @{{name}}(i64 %count) {{{{
{_SET}
  %n = trunc i64 %count to i32
  call void @GOMP_parallel(ptr @{{name}}.one, ptr null, i32 %n, i32 0)
{_RESTORE}
  ret i64 0
}}}}
"""
_LOOP = """
{mxcsr}
declare i32 @clock_gettime(i32, ptr)

define void @{name}.note(ptr %to) {{
  %spec = alloca {{ i64, i64 }}
  %done = call i32 @clock_gettime(i32 1, ptr %spec)
  %seconds = load i64, ptr %spec
  %rest_at = getelementptr i64, ptr %spec, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  store i64 %now, ptr %to
  ret void
}}

define i64 @{name}(ptr %head) {{
entry:
{set}
{head}
  %timed = icmp ne ptr %times, null
  %free = icmp eq ptr %set, null
  br i1 %free, label %begin, label %ask
ask:
  %asked = call i32 %get()
  br label %begin
begin:
  %before = phi i32 [ 0, %entry ], [ %asked, %ask ]
  br i1 %timed, label %note_first, label %test
note_first:
  call void @{name}.note(ptr %times)
  br label %test
test:
  %i = phi i64 [ 0, %begin ], [ 0, %note_first ], [ %next, %after ]
  %now = phi i32 [ %before, %begin ], [ %before, %note_first ], [ %threads, %after ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %row, label %done
row:
  %at = getelementptr [6 x i64], ptr %table, i64 %i
{row}
  %t = trunc i64 %t64 to i32
  %any = icmp eq i32 %t, 0
  %wanted = select i1 %any, i32 %now, i32 %t
  %same = icmp eq i32 %wanted, %now
  %skip = or i1 %same, %free
  br i1 %skip, label %call, label %switch
switch:
  call void %set(i32 %wanted)
  br label %call
call:
  %threads = phi i32 [ %now, %row ], [ %wanted, %switch ]
  %result = call i64 %f(i64 %a, i64 %b, i64 %c, i64 %d)
  %next = add i64 %i, 1
  br i1 %timed, label %note, label %judge
note:
  %slot = getelementptr i64, ptr %times, i64 %next
  call void @{name}.note(ptr %slot)
  br label %judge
judge:
  %status = and i64 %result, 4294967295
  %good = icmp eq i64 %status, 0
  br i1 %good, label %after, label %failed
after:
  br label %test
failed:
  %high = shl i64 %next, 32
  %both = or i64 %high, %status
  br label %done
done:
  %answer = phi i64 [ 0, %test ], [ %both, %failed ]
  %last = phi i32 [ %now, %test ], [ %threads, %failed ]
  %kept = icmp eq i32 %last, %before
  br i1 %kept, label %leave, label %restore
restore:
  call void %set(i32 %before)
  br label %leave
leave:
{restore}
  ret i64 %answer
}}
"""


class Row(Protocol):
    """What a segment needs of a call: see `tazza.operator.NativeCall`."""

    @property
    def address(self) -> int:
        """The function."""
        ...

    @property
    def arguments(self) -> tuple[int, int, int, int]:
        """What it is called with."""
        ...

    @property
    def threads(self) -> int:
        """The OpenMP thread count to call it under; 0 leaves the present one."""
        ...


class Segment:
    """Several native calls as one."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Make the table; the rows, and so whatever owns their memory, are kept alive."""
        self.rows = tuple(rows)
        self.table: NDArray[np.int64] = np.array(
            [(row.address, *row.arguments, row.threads) for row in self.rows], np.int64
        ).reshape(len(self.rows), 6)
        get, set_ = _openmp() if any(row.threads for row in self.rows) else (0, 0)
        self._header = np.array([self.table.ctypes.data, len(self.rows), get, set_, 0], np.int64)
        self._times = np.zeros(len(self.rows) + 1, np.int64)
        self._timed_header = self._header.copy()
        self._timed_header[_HEADER_WORDS - 1] = self._times.ctypes.data
        self._workers = max(thread_count(), *(row.threads for row in self.rows), 1)
        self._call = _loop()
        self._at = ctypes.c_void_p(self._header.ctypes.data)

    def run(self) -> tuple[int, int]:
        """Run all rows without the GIL; returns (0, 0), or the number of the row that failed, from 1, and its status.

        The OpenMP thread count of the calling thread is afterwards what it was.

        Raises:
            UnavailableError: it uses several threads, and they were lost when this process was forked.
        """
        if PROCESS.lost and self._workers > 1:
            check_threads()
        if getattr(_thread, "flushed", 0) < self._workers:
            _flush_workers(self._workers)
        result = self._call(self._at)
        return (0, 0) if result == 0 else self.failed(result >> 32, result & STATUS)

    def failed(self, row: int, status: int) -> tuple[int, int]:
        """Return the answer of a run in which a row failed; who knows what a status means raises an error instead."""
        return row, status

    def run_timed(self) -> tuple[tuple[int, int], NDArray[np.float64]]:
        """Run as `run` does; returns its answer, and the seconds that each row took (0 for rows that did not run)."""
        if self._workers > 1:
            check_threads()
        self._times[:] = 0
        result = self._call(ctypes.c_void_p(self._timed_header.ctypes.data))
        stamps = np.maximum.accumulate(self._times)
        return (0, 0) if result == 0 else self.failed(result >> 32, result & STATUS), np.diff(stamps) * 1e-9


def _openmp() -> tuple[int, int]:
    if openmp_unavailable() is not None:
        return 0, 0  # nothing here could follow a thread count
    return openmp_address("omp_get_max_threads"), openmp_address("omp_set_num_threads")


def _loop_text(name: str) -> str:
    flushes = can_flush()
    return _LOOP.format(
        name=name,
        mxcsr=_MXCSR if flushes else "",
        set=_SET if flushes else "",
        restore=_RESTORE if flushes else "",
        head=_loads("head", "ptr table, i64 count, ptr get, ptr set, ptr times"),
        row=_loads("at", "ptr f, i64 a, i64 b, i64 c, i64 d, i64 t64"),
    )


def _loads(base: str, fields: str) -> str:
    """Return LLVM IR that loads the words that lie from `base` on, each under its name."""
    kinds = [field.split() for field in fields.split(", ")]
    return "\n".join(
        f"  %{name}_at = getelementptr i64, ptr %{base}, i64 {i}\n  %{name} = load {kind}, ptr %{name}_at"
        for i, (kind, name) in enumerate(kinds)
    )


def can_flush() -> bool:
    """Whether the processor has MXCSR, which says what denormals count as."""
    return platform.machine() in ("x86_64", "AMD64")


def _flush_workers(count: int) -> None:
    """Let the OpenMP threads that work for this thread take denormals for 0; nobody else sees their arithmetic."""
    _thread.flushed = count
    if count > 1:
        check_threads()  # from here on there are threads
    if unavailable() is not None or openmp_unavailable() is not None or not can_flush():
        return
    if not has_library_regions():  # our workers compute in the mode of whoever began a region
        return
    flush = native_function(
        "flush workers",
        lambda name: _WORKERS.format(name=name),
        symbols={"GOMP_parallel": library_parallel()},
        sources=source_digest(Path(__file__)),
    )
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(flush)(count)


_thread = threading.local()
_loops: dict[bool, Callable[[Any], int]] = {}


def _loop() -> Callable[[Any], int]:
    compiled = unavailable() is None
    if compiled not in _loops:
        if compiled:
            address = native_function("segment loop", _loop_text, sources=source_digest(Path(__file__)))
            _loops[compiled] = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)
        else:
            _loops[compiled] = _run_rows
    return _loops[compiled]


def _run_rows(head: ctypes.c_void_p) -> int:
    """Do what the compiled loop does, from Python."""
    import time

    address, count, get, set_, times = (ctypes.c_int64 * _HEADER_WORDS).from_address(int(head.value or 0))
    rows = (ctypes.c_int64 * (6 * count)).from_address(address)
    stamps = (ctypes.c_int64 * (count + 1)).from_address(times) if times else None
    setter = ctypes.CFUNCTYPE(None, ctypes.c_int32)(set_) if set_ else None
    before = now = ctypes.CFUNCTYPE(ctypes.c_int32)(get)() if set_ else 0
    answer = 0
    if stamps is not None:
        stamps[0] = time.monotonic_ns()
    for i in range(count):
        function, a, b, c, d, threads = rows[6 * i : 6 * i + 6]
        if setter is not None and threads not in (0, now):
            setter(threads)
            now = threads
        status = _FUNCTION(function)(a, b, c, d) & STATUS
        if stamps is not None:
            stamps[i + 1] = time.monotonic_ns()
        if status:
            answer = (i + 1) << 32 | status
            break
    if setter is not None and now != before:
        setter(before)
    return answer
