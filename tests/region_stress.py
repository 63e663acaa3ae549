"""A million parallel regions of our own beside busy processes: `python -m tests.region_stress`.

Two threads begin regions of two to five parts, some with barriers, some after a pause; workers look long, shortly or
not at all before they sleep. In each region every part is run once, sees behind a barrier what the part beside it wrote
before it, and has been seen by the thread that began the region when that goes on; all by plain reads and writes, so
that only the memory orders of docs/threads.md can make it right. What hangs is ended, and said.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

from tazza.runtime.fork import note_threads
from tazza.runtime.native import call_native
from tazza.runtime.native_code import native_function
from tazza.runtime.openmp import own_functions

CALLERS = 2
LOOKS = ("", "50", "0")
"""Values of GOMP_SPINCOUNT; the first is not set."""
AT_ONCE = 200
"""Regions of a native call."""
LINE, MOST_PARTS = 8, 5
PATIENCE_S = 60
"""How long a process may take beyond its time, before it hangs."""

_TEXT = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare void @GOMP_barrier()
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()
declare i32 @usleep(i32)

define internal ptr @line(ptr %state, i32 %part) {
  %wide = zext i32 %part to i64
  %lines = add i64 %wide, 1
  %words = mul i64 %lines, 8
  %at = getelementptr i64, ptr %state, i64 %words
  ret ptr %at
}
define internal void @part(ptr %state) {
  %me = call i32 @omp_get_thread_num()
  %parts = call i32 @omp_get_num_threads()
  %mine = call ptr @line(ptr %state, i32 %me)
  %runs_at = getelementptr i64, ptr %mine, i64 1
  %region = load i64, ptr %state
  %runs = load i64, ptr %runs_at
  %more = add i64 %runs, 1
  store i64 %more, ptr %runs_at
  store i64 %region, ptr %mine
  %barrier_at = getelementptr i64, ptr %state, i64 1
  %barrier = load i64, ptr %barrier_at
  %waits = icmp ne i64 %barrier, 0
  br i1 %waits, label %meet, label %end
meet:
  call void @GOMP_barrier()
  %next = add i32 %me, 1
  %beside = urem i32 %next, %parts
  %theirs_at = call ptr @line(ptr %state, i32 %beside)
  %theirs = load i64, ptr %theirs_at
  %right = icmp eq i64 %theirs, %region
  br i1 %right, label %again, label %wrong
wrong:
  %errors_at = getelementptr i64, ptr %state, i64 2
  %old = atomicrmw add ptr %errors_at, i64 1 seq_cst
  br label %again
again:
  call void @GOMP_barrier()
  br label %end
end:
  ret void
}
define i64 @<name>(ptr %state, i64 %count, i64 %seed, i64 %unused) {
begin:
  %barrier_at = getelementptr i64, ptr %state, i64 1
  %errors_at = getelementptr i64, ptr %state, i64 2
  br label %region
region:
  %left = phi i64 [ %count, %begin ], [ %less, %checked ]
  %before = phi i64 [ %seed, %begin ], [ %drawn, %checked ]
  %scaled = mul i64 %before, 6364136223846793005
  %drawn = add i64 %scaled, 1442695040888963407
  %bits = lshr i64 %drawn, 33
  %kind = urem i64 %bits, 4
  %few = trunc i64 %kind to i32
  %parts = add i32 %few, 2
  %shifted = lshr i64 %bits, 8
  %chance = and i64 %shifted, 63
  %meets = icmp eq i64 %chance, 0
  %barrier = zext i1 %meets to i64
  %pauses = lshr i64 %bits, 12
  %rare = and i64 %pauses, 255
  %rests = icmp eq i64 %rare, 0
  br i1 %rests, label %rest, label %go
rest:
  %us = and i32 %few, 3
  %long = mul i32 %us, 40
  %rested = call i32 @usleep(i32 %long)
  br label %go
go:
  store i64 %barrier, ptr %barrier_at
  %former = load i64, ptr %state
  %number = add i64 %former, 1
  store i64 %number, ptr %state
  call void @GOMP_parallel(ptr @part, ptr %state, i32 %parts, i32 0)
  br label %check
check:
  %i = phi i32 [ 0, %go ], [ %following, %counted ]
  %line = call ptr @line(ptr %state, i32 %i)
  %runs_at = getelementptr i64, ptr %line, i64 1
  %runs = load i64, ptr %runs_at
  store i64 0, ptr %runs_at
  %value = load i64, ptr %line
  %there = icmp ult i32 %i, %parts
  %wanted_runs = zext i1 %there to i64
  %once = icmp eq i64 %runs, %wanted_runs
  %same = icmp eq i64 %value, %number
  %seen = icmp eq i1 %same, %there
  %right = and i1 %once, %seen
  br i1 %right, label %counted, label %wrong
wrong:
  %old = atomicrmw add ptr %errors_at, i64 1 seq_cst
  br label %counted
counted:
  %following = add i32 %i, 1
  %more = icmp ult i32 %following, 5
  br i1 %more, label %check, label %checked
checked:
  %less = sub i64 %left, 1
  %on = icmp sgt i64 %less, 0
  br i1 %on, label %region, label %end
end:
  %errors = load i64, ptr %errors_at
  ret i64 %errors
}
"""


def run_regions(count: int, seconds: float, seed: int) -> tuple[int, int]:
    """Run regions from this thread, until there were `count` or the time is over: how many, and how many errors."""
    note_threads()
    functions = own_functions()
    names = [name for name in functions if f"@{name}(" in _TEXT]
    address = native_function(
        f"stress of regions {_TEXT}",
        lambda name: _TEXT.replace("<name>", name).replace("@line", f"@{name}.line").replace("@part", f"@{name}.part"),
        symbols={name: functions[name] for name in names},
    )
    state = (ctypes.c_int64 * (LINE * (MOST_PARTS + 2)))()
    at = -(-ctypes.addressof(state) // 64) * 64
    end, done, errors = time.monotonic() + seconds, 0, 0
    while done < count and time.monotonic() < end:
        errors = call_native(address, at, min(AT_ONCE, count - done), seed + done)
        done += AT_ONCE
    return min(done, count), errors


def run_callers(count: int, seconds: float) -> tuple[int, int]:
    """Run `count` regions, divided among the threads that begin them."""
    with ThreadPoolExecutor(CALLERS) as pool:
        each = [pool.submit(run_regions, count // CALLERS, seconds, number) for number in range(CALLERS)]
        found = [one.result() for one in each]
    return sum(done for done, _ in found), sum(errors for _, errors in found)


@contextlib.contextmanager
def busy_processes(count: int) -> Generator[None]:
    """Keep `count` processors busy, until the block ends."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in processes:
            one.kill()
            one.wait()


def stress(regions: int, seconds: float, busy: int) -> list[str]:
    """Run regions in a process for each way of waiting, and return a line about each.

    Raises:
        AssertionError: a region was wrong, or hangs.
    """
    lines: list[str] = []
    with busy_processes(busy):
        for looks in LOOKS:
            given = {
                name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
            }
            environment = {**given, "GOMP_SPINCOUNT": looks} if looks else given
            share = [str(regions // len(LOOKS)), str(seconds / len(LOOKS))]
            command = [sys.executable, "-m", "tests.region_stress", "--only", *share]
            began = time.monotonic()
            try:
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=float(share[1]) + PATIENCE_S
                )
            except subprocess.TimeoutExpired:
                raise AssertionError(f"regions hang, GOMP_SPINCOUNT={looks!r}, {busy} busy processes beside") from None
            assert done.returncode == 0, done.stderr
            count, errors = map(int, done.stdout.split())
            assert errors == 0, f"{errors} errors in {count} regions, GOMP_SPINCOUNT={looks!r}"
            assert count > 0
            took = time.monotonic() - began
            lines.append(
                f"GOMP_SPINCOUNT={looks!r}: {count} regions right in {took:.0f} s, {busy} busy processes beside"
            )
    return lines


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.region_stress", description="run regions under stress")
    parser.add_argument("--regions", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=600, help="the longest that all may take")
    parser.add_argument("--busy", type=int, default=os.cpu_count(), help="processes that only count, beside them")
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only is not None:
        print(*run_callers(int(given.only[0]), float(given.only[1])))
        return
    for line in stress(given.regions, given.seconds, given.busy):
        print(line, flush=True)


if __name__ == "__main__":
    main()
