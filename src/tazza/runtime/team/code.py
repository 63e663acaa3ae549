"""The machine code of parallel regions, as LLVM IR: what libgomp's functions of the same names do (see __init__.py).

The parts of the text say where things lie by names of fields (layout.py).
"""

from __future__ import annotations

from tazza.runtime.team.layout import (
    DEPTH_MAX,
    OUTER_BYTES,
    SLOT_BYTES,
    TEAM_BYTES,
    TEAM_HEAD_BYTES,
    WORKERS_MAX,
    with_fields,
)
from tazza.runtime.team.region import BARRIER, REGION, WAITING, WORKER
from tazza.runtime.team.slot import LOOP, NUMBERS, SLOT

FUNCTIONS = (
    "GOMP_parallel",
    "GOMP_parallel_start",
    "GOMP_parallel_end",
    "GOMP_barrier",
    "GOMP_loop_static_start",
    "GOMP_loop_static_next",
    "GOMP_loop_end_nowait",
    "omp_get_thread_num",
    "omp_get_num_threads",
    "omp_in_parallel",
    "end_of_thread",
)
"""The functions of the module, in the order in which its directory lists them."""
_LOST = "tazza: the system gives no threads or no memory for a parallel region; use fewer (OMP_NUM_THREADS)"
_PAUSES = 16
"""Looks before a waiting thread offers its processor to others: hypervisors take it away from loops that pause long."""
_FUTEX, _WAIT, _WAKE = 202, 128, 129  # the system call on x86-64; FUTEX_WAIT and FUTEX_WAKE, private


def team_text(name: str) -> str:
    """Return the module; its function `name` writes the addresses of `FUNCTIONS` to an array."""
    listed = "\n".join(
        f"  %at{i} = getelementptr ptr, ptr %directory, i64 {i}\n  store ptr @{name}.{function}, ptr %at{i}"
        for i, function in enumerate(FUNCTIONS)
    )
    body = with_fields("\n".join((_OUTSIDE, SLOT, NUMBERS, WAITING, REGION, WORKER, BARRIER, LOOP, _ENDING)))
    for mark, text in {
        "<name>": name,
        "<team_bytes>": TEAM_BYTES,
        "<team_head_bytes>": TEAM_HEAD_BYTES,
        "<slot_bytes>": SLOT_BYTES,
        "<depth_max>": DEPTH_MAX,
        "<outer_bytes>": OUTER_BYTES,
        "<workers_max>": WORKERS_MAX,
        "<pauses>": _PAUSES,
        "<lost>": _LOST + r"\0A",
        "<lost_bytes>": len(_LOST) + 1,
        "<futex>": _FUTEX,
        "<wait>": _WAIT,
        "<wake>": _WAKE,
    }.items():
        body = body.replace(mark, str(text))
    return f"{body}\ndefine i64 @{name}(ptr %directory) nounwind {{\n{listed}\n  ret i64 0\n}}\n"


_OUTSIDE = """
@tazza_team_settings = external global [2 x i64]

declare i32 @omp_get_max_threads()
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare ptr @calloc(i64, i64)
declare ptr @aligned_alloc(i64, i64)
declare ptr @memset(ptr, i32, i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare i32 @getpid()
declare i64 @syscall(i64, ptr, i32, i32, ptr)
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @llvm.smin.i32(i32, i32)
declare i64 @write(i32, ptr, i64)
declare void @abort()
declare i64 @llvm.smin.i64(i64, i64)

@<name>.lost = private constant [<lost_bytes> x i8] c"<lost>"

define internal void @<name>.give_up() nounwind {
  %told = call i64 @write(i32 2, ptr @<name>.lost, i64 <lost_bytes>)
  call void @abort()
  unreachable
}

define internal ptr @<name>.given(ptr %memory) nounwind {
  %none = icmp eq ptr %memory, null
  br i1 %none, label %lost, label %end
lost:
  call void @<name>.give_up()
  unreachable
end:
  ret ptr %memory
}

define internal i32 @<name>.key() nounwind {
  %key = load i64, ptr @tazza_team_settings
  %short = trunc i64 %key to i32
  ret i32 %short
}
"""


_ENDING = """
define void @<name>.end_of_thread(ptr %slot) nounwind {
  %team = load ptr, ptr %slot
  %none = icmp eq ptr %team, null
  br i1 %none, label %end, label %dismiss
dismiss:
  %process = load i32, ptr <team.process>
  %here = call i32 @getpid()
  %forked = icmp ne i32 %process, %here
  br i1 %forked, label %end, label %stop
stop:
  store atomic i32 1, ptr <team.stop> monotonic, align 4 ; stop
  %before = load atomic i64, ptr %team monotonic, align 8 ; own number
  %number = lshr i64 %before, 32
  %next = add i64 %number, 1
  %word = shl i64 %next, 32
  store atomic i64 %word, ptr %team seq_cst, align 8 ; publish
  call void @<name>.wake(ptr %team, i32 2147483647)
  %workers = load i32, ptr <team.workers>
  %count = zext i32 %workers to i64
  br label %test
test:
  %i = phi i64 [ 0, %stop ], [ %following, %join ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %join, label %gone
join:
  %thread_at = getelementptr i64, ptr <team.threads>, i64 %i
  %thread = load i64, ptr %thread_at
  %joined = call i32 @pthread_join(i64 %thread, ptr null)
  %following = add i64 %i, 1
  br label %test
gone:
  call void @free(ptr %team)
  br label %end
end:
  call void @free(ptr %slot)
  ret void
}
"""
