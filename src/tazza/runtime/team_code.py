"""The machine code of parallel regions, as LLVM IR: what libgomp's functions of the same names do (see team.py).

A *team* is a thread that begins regions, and its workers. Its `word` holds the number of the region (32 bits), how many
parts that region has (16) and how many of them are taken (16): one compare-and-swap takes a part, and fails as soon as
the region is another. Whoever took a part reads `function` and `data` after that; they stay as they are until all parts
are done. Every thread has a *slot*, found by a key of pthread: the part it is in, and of how many.

Offsets in bytes. A team, aligned to 64: word 0, sleepers 8, stop 12 | function 64, data 72, mxcsr 80 | done 128 |
arrived 192, passed 196 | workers 256, process 260 | the workers' threads from 512 on. A slot: own team 0, team it is in
8, part 16, parts 20, active 24, depth 28 | loop: start 32, step 40, chunk 48, count 56, turn 64 | from 128 on, what an
outer region had in bytes 16 to 79, for each depth.
"""

from __future__ import annotations

WORKERS_MAX = 4095
"""Workers of a team. A region that asks for more ends the process with a message, as one does for which the system
gives no threads, here and in libgomp: kernels of oneDNN rely on as many parts as they were made for."""
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
_TEAM_BYTES = 512 + 8 * (WORKERS_MAX + 1)
_DEPTH_MAX = 31
_OUTER_BYTES = 64
_SLOT_BYTES = 128 + _OUTER_BYTES * (_DEPTH_MAX + 1)
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
    body = "\n".join((_OUTSIDE, _SLOT, _WAITING, _REGION, _WORKER, _BARRIER, _LOOP, _ENDING))
    for mark, text in {
        "<name>": name,
        "<team_bytes>": _TEAM_BYTES,
        "<slot_bytes>": _SLOT_BYTES,
        "<depth_max>": _DEPTH_MAX,
        "<outer_bytes>": _OUTER_BYTES,
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

_SLOT = """
define internal ptr @<name>.slot() nounwind {
  %key = call i32 @<name>.key()
  %found = call ptr @pthread_getspecific(i32 %key)
  %none = icmp eq ptr %found, null
  br i1 %none, label %new, label %end
new:
  %memory = call ptr @calloc(i64 1, i64 <slot_bytes>)
  %made = call ptr @<name>.given(ptr %memory)
  %parts = getelementptr i8, ptr %made, i64 20
  store i32 1, ptr %parts
  %failed = call i32 @pthread_setspecific(i32 %key, ptr %made)
  %fails = icmp ne i32 %failed, 0
  br i1 %fails, label %lost, label %end
lost:
  call void @<name>.give_up()
  unreachable
end:
  %slot = phi ptr [ %found, %0 ], [ %made, %new ]
  ret ptr %slot
}

define internal ptr @<name>.outer(ptr %slot) nounwind {
  %depth_at = getelementptr i8, ptr %slot, i64 28
  %depth = load i32, ptr %depth_at
  %level = call i32 @llvm.smin.i32(i32 %depth, i32 <depth_max>)
  %wide = zext i32 %level to i64
  %offset = mul i64 %wide, <outer_bytes>
  %stack = getelementptr i8, ptr %slot, i64 128
  %outer = getelementptr i8, ptr %stack, i64 %offset
  ret ptr %outer
}

define internal void @<name>.enter(ptr %slot, i32 %part, i32 %parts, i32 %active) nounwind {
  %outer = call ptr @<name>.outer(ptr %slot)
  %part_at = getelementptr i8, ptr %slot, i64 16
  %parts_at = getelementptr i8, ptr %slot, i64 20
  %active_at = getelementptr i8, ptr %slot, i64 24
  %depth_at = getelementptr i8, ptr %slot, i64 28
  call void @llvm.memcpy.p0.p0.i64(ptr %outer, ptr %part_at, i64 <outer_bytes>, i1 false)
  store i32 %part, ptr %part_at
  store i32 %parts, ptr %parts_at
  store i32 %active, ptr %active_at
  %depth = load i32, ptr %depth_at
  %deeper = add i32 %depth, 1
  store i32 %deeper, ptr %depth_at
  ret void
}

define internal void @<name>.leave(ptr %slot) nounwind {
  %part_at = getelementptr i8, ptr %slot, i64 16
  %depth_at = getelementptr i8, ptr %slot, i64 28
  %depth = load i32, ptr %depth_at
  %less = sub i32 %depth, 1
  store i32 %less, ptr %depth_at
  %outer = call ptr @<name>.outer(ptr %slot)
  call void @llvm.memcpy.p0.p0.i64(ptr %part_at, ptr %outer, i64 <outer_bytes>, i1 false)
  ret void
}

define i32 @<name>.omp_get_thread_num() nounwind {
  %slot = call ptr @<name>.slot()
  %at = getelementptr i8, ptr %slot, i64 16
  %part = load i32, ptr %at
  ret i32 %part
}

define i32 @<name>.omp_get_num_threads() nounwind {
  %slot = call ptr @<name>.slot()
  %at = getelementptr i8, ptr %slot, i64 20
  %parts = load i32, ptr %at
  ret i32 %parts
}

define i32 @<name>.omp_in_parallel() nounwind {
  %slot = call ptr @<name>.slot()
  %at = getelementptr i8, ptr %slot, i64 24
  %active = load i32, ptr %at
  ret i32 %active
}
"""

_WAITING = """
define internal i64 @<name>.rest(i64 %looks) nounwind {
  call void @llvm.x86.sse2.pause()
  %more = add i64 %looks, 1
  %left = urem i64 %more, <pauses>
  %offers = icmp eq i64 %left, 0
  br i1 %offers, label %offer, label %end
offer:
  %done = call i32 @sched_yield()
  br label %end
end:
  ret i64 %more
}
"""
"""Looks again a little later; the processor is offered to whoever else wants it, now and then."""

_REGION = """
define internal ptr @<name>.own_team(ptr %slot) nounwind {
  %found = load ptr, ptr %slot
  %none = icmp eq ptr %found, null
  br i1 %none, label %new, label %end
new:
  %memory = call ptr @aligned_alloc(i64 64, i64 <team_bytes>)
  %made = call ptr @<name>.given(ptr %memory)
  %filled = call ptr @memset(ptr %made, i32 0, i64 512)
  %process_at = getelementptr i8, ptr %made, i64 260
  %process = call i32 @getpid()
  store i32 %process, ptr %process_at
  store ptr %made, ptr %slot
  br label %end
end:
  %team = phi ptr [ %found, %0 ], [ %made, %new ]
  ret ptr %team
}

define internal void @<name>.hire(ptr %team, i32 %wanted) nounwind {
  %workers_at = getelementptr i8, ptr %team, i64 256
  %threads = getelementptr i8, ptr %team, i64 512
  %many = icmp ugt i32 %wanted, <workers_max>
  br i1 %many, label %lost, label %test
test:
  %workers = load i32, ptr %workers_at
  %few = icmp ult i32 %workers, %wanted
  br i1 %few, label %more, label %end
more:
  %wide = zext i32 %workers to i64
  %thread = getelementptr i64, ptr %threads, i64 %wide
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @<name>.work, ptr %team)
  %fails = icmp ne i32 %failed, 0
  br i1 %fails, label %lost, label %count
count:
  %now = add i32 %workers, 1
  store i32 %now, ptr %workers_at
  br label %test
lost:
  call void @<name>.give_up()
  unreachable
end:
  ret void
}

define void @<name>.GOMP_parallel_start(ptr %function, ptr %data, i32 %asked) nounwind {
  %slot = call ptr @<name>.slot()
  %active_at = getelementptr i8, ptr %slot, i64 24
  %active = load i32, ptr %active_at
  %inner = icmp ne i32 %active, 0
  br i1 %inner, label %alone, label %outer
outer:
  %any = icmp eq i32 %asked, 0
  br i1 %any, label %usual, label %given
usual:
  %most = call i32 @omp_get_max_threads()
  br label %given
given:
  %wanted = phi i32 [ %asked, %outer ], [ %most, %usual ]
  %several = icmp sgt i32 %wanted, 1
  br i1 %several, label %team_of, label %alone
alone:
  call void @<name>.enter(ptr %slot, i32 0, i32 1, i32 %active)
  ret void
team_of:
  %team = call ptr @<name>.own_team(ptr %slot)
  %others = sub i32 %wanted, 1
  call void @<name>.hire(ptr %team, i32 %others)
  %in_at = getelementptr i8, ptr %slot, i64 8
  store ptr %team, ptr %in_at
  %function_at = getelementptr i8, ptr %team, i64 64
  %data_at = getelementptr i8, ptr %team, i64 72
  %mode_at = getelementptr i8, ptr %team, i64 80
  %done_at = getelementptr i8, ptr %team, i64 128
  store ptr %function, ptr %function_at
  store ptr %data, ptr %data_at
  call void @llvm.x86.sse.stmxcsr(ptr %mode_at)
  store atomic i32 0, ptr %done_at monotonic, align 4
  %before = load atomic i64, ptr %team monotonic, align 8
  %number = lshr i64 %before, 32
  %next = add i64 %number, 1
  %high = shl i64 %next, 32
  %wide = zext i32 %wanted to i64
  %middle = shl i64 %wide, 16
  %joined = or i64 %high, %middle
  %word = or i64 %joined, 1
  store atomic i64 %word, ptr %team seq_cst, align 8
  call void @<name>.wake(ptr %team, i32 %others)
  call void @<name>.enter(ptr %slot, i32 0, i32 %wanted, i32 1)
  ret void
}

define internal void @<name>.wake(ptr %team, i32 %most) nounwind {
  %sleepers_at = getelementptr i8, ptr %team, i64 8
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %some = icmp sgt i32 %sleepers, 0
  br i1 %some, label %call, label %end
call:
  %number_at = getelementptr i8, ptr %team, i64 4
  %woken = call i64 @syscall(i64 <futex>, ptr %number_at, i32 <wake>, i32 %most, ptr null)
  br label %end
end:
  ret void
}

define internal i32 @<name>.take(ptr %team, ptr %slot, i1 %worker) nounwind {
  br label %look
look:
  %word = load atomic i64, ptr %team acquire, align 8
  %taken = and i64 %word, 65535
  %shifted = lshr i64 %word, 16
  %parts = and i64 %shifted, 65535
  %left = icmp ult i64 %taken, %parts
  br i1 %left, label %try, label %none
try:
  %more = add i64 %word, 1
  %swap = cmpxchg ptr %team, i64 %word, i64 %more acq_rel acquire
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %look
run:
  %function_at = getelementptr i8, ptr %team, i64 64
  %data_at = getelementptr i8, ptr %team, i64 72
  %done_at = getelementptr i8, ptr %team, i64 128
  %part_at = getelementptr i8, ptr %slot, i64 16
  %parts_at = getelementptr i8, ptr %slot, i64 20
  %mode_at = getelementptr i8, ptr %team, i64 80
  %function = load ptr, ptr %function_at
  %data = load ptr, ptr %data_at
  br i1 %worker, label %follow, label %begin
follow:
  call void @llvm.x86.sse.ldmxcsr(ptr %mode_at)
  br label %begin
begin:
  %part = trunc i64 %taken to i32
  %short = trunc i64 %parts to i32
  store i32 %part, ptr %part_at
  store i32 %short, ptr %parts_at
  call void %function(ptr %data)
  %former = atomicrmw add ptr %done_at, i32 1 release
  ret i32 1
none:
  ret i32 0
}

define void @<name>.GOMP_parallel_end() nounwind {
  %slot = call ptr @<name>.slot()
  %parts_at = getelementptr i8, ptr %slot, i64 20
  %parts = load i32, ptr %parts_at
  %several = icmp sgt i32 %parts, 1
  br i1 %several, label %begin, label %end
begin:
  %in_at = getelementptr i8, ptr %slot, i64 8
  %team = load ptr, ptr %in_at
  br label %help
help:
  %took = call i32 @<name>.take(ptr %team, ptr %slot, i1 false)
  %again = icmp ne i32 %took, 0
  br i1 %again, label %help, label %gather
gather:
  %done_at = getelementptr i8, ptr %team, i64 128
  %others = sub i32 %parts, 1
  br label %test
test:
  %looks = phi i64 [ 0, %gather ], [ %more, %wait ]
  %done = load atomic i32, ptr %done_at acquire, align 4
  %all = icmp eq i32 %done, %others
  br i1 %all, label %end, label %wait
wait:
  %more = call i64 @<name>.rest(i64 %looks)
  br label %test
end:
  call void @<name>.leave(ptr %slot)
  ret void
}

define void @<name>.GOMP_parallel(ptr %function, ptr %data, i32 %asked, i32 %flags) nounwind {
  call void @<name>.GOMP_parallel_start(ptr %function, ptr %data, i32 %asked)
  call void %function(ptr %data)
  call void @<name>.GOMP_parallel_end()
  ret void
}
"""

_WORKER = """
define ptr @<name>.work(ptr %team) nounwind {
  %slot = call ptr @<name>.slot()
  %in_at = getelementptr i8, ptr %slot, i64 8
  %parts_at = getelementptr i8, ptr %slot, i64 20
  %active_at = getelementptr i8, ptr %slot, i64 24
  store ptr %team, ptr %in_at
  store i32 1, ptr %active_at
  %stop_at = getelementptr i8, ptr %team, i64 12
  %sleepers_at = getelementptr i8, ptr %team, i64 8
  %number_at = getelementptr i8, ptr %team, i64 4
  %most_at = getelementptr i64, ptr @tazza_team_settings, i64 1
  br label %begin
begin:
  br label %test
test:
  %looks = phi i64 [ 0, %begin ], [ %more, %wait ]
  %word = load atomic i64, ptr %team acquire, align 8
  %taken = and i64 %word, 65535
  %shifted = lshr i64 %word, 16
  %parts = and i64 %shifted, 65535
  %left = icmp ult i64 %taken, %parts
  br i1 %left, label %join, label %idle
join:
  %took = call i32 @<name>.take(ptr %team, ptr %slot, i1 true)
  store i32 1, ptr %parts_at
  br label %begin
idle:
  %stop = load atomic i32, ptr %stop_at acquire, align 4
  %stops = icmp ne i32 %stop, 0
  br i1 %stops, label %end, label %rest
rest:
  %most = load i64, ptr %most_at
  %long = icmp ugt i64 %looks, %most
  br i1 %long, label %sleep, label %wait
wait:
  %more = call i64 @<name>.rest(i64 %looks)
  br label %test
sleep:
  %one = atomicrmw add ptr %sleepers_at, i32 1 seq_cst
  %seen = load atomic i64, ptr %team seq_cst, align 8
  %same = icmp eq i64 %seen, %word
  br i1 %same, label %down, label %up
down:
  %high = lshr i64 %seen, 32
  %number = trunc i64 %high to i32
  %slept = call i64 @syscall(i64 <futex>, ptr %number_at, i32 <wait>, i32 %number, ptr null)
  br label %up
up:
  %less = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst
  br label %begin
end:
  ret ptr null
}
"""

_BARRIER = """
define void @<name>.GOMP_barrier() nounwind {
  %slot = call ptr @<name>.slot()
  %parts_at = getelementptr i8, ptr %slot, i64 20
  %parts = load i32, ptr %parts_at
  %several = icmp sgt i32 %parts, 1
  br i1 %several, label %arrive, label %end
arrive:
  %in_at = getelementptr i8, ptr %slot, i64 8
  %team = load ptr, ptr %in_at
  %arrived_at = getelementptr i8, ptr %team, i64 192
  %passed_at = getelementptr i8, ptr %team, i64 196
  %before = load atomic i32, ptr %passed_at acquire, align 4
  %former = atomicrmw add ptr %arrived_at, i32 1 acq_rel
  %now = add i32 %former, 1
  %last = icmp eq i32 %now, %parts
  br i1 %last, label %open, label %test
open:
  store atomic i32 0, ptr %arrived_at monotonic, align 4
  %next = add i32 %before, 1
  store atomic i32 %next, ptr %passed_at release, align 4
  br label %end
test:
  %looks = phi i64 [ 0, %arrive ], [ %more, %wait ]
  %passed = load atomic i32, ptr %passed_at acquire, align 4
  %still = icmp eq i32 %passed, %before
  br i1 %still, label %wait, label %end
wait:
  %more = call i64 @<name>.rest(i64 %looks)
  br label %test
end:
  ret void
}
"""

_LOOP = """
define i8 @<name>.GOMP_loop_static_start(i64 %start, i64 %end, i64 %step, i64 %chunk, ptr %from, ptr %to) nounwind {
  %slot = call ptr @<name>.slot()
  %start_at = getelementptr i8, ptr %slot, i64 32
  %step_at = getelementptr i8, ptr %slot, i64 40
  %chunk_at = getelementptr i8, ptr %slot, i64 48
  %count_at = getelementptr i8, ptr %slot, i64 56
  %turn_at = getelementptr i8, ptr %slot, i64 64
  %up = icmp sgt i64 %step, 0
  %nearly = select i1 %up, i64 -1, i64 1
  %over = add i64 %step, %nearly
  %extent = sub i64 %end, %start
  %rounded = add i64 %extent, %over
  %turns = sdiv i64 %rounded, %step
  %ahead = icmp slt i64 %start, %end
  %behind = icmp sgt i64 %start, %end
  %some = select i1 %up, i1 %ahead, i1 %behind
  %count = select i1 %some, i64 %turns, i64 0
  store i64 %start, ptr %start_at
  store i64 %step, ptr %step_at
  store i64 %chunk, ptr %chunk_at
  store i64 %count, ptr %count_at
  store i64 0, ptr %turn_at
  %found = call i8 @<name>.GOMP_loop_static_next(ptr %from, ptr %to)
  ret i8 %found
}

define i8 @<name>.GOMP_loop_static_next(ptr %from, ptr %to) nounwind {
  %slot = call ptr @<name>.slot()
  %part_at = getelementptr i8, ptr %slot, i64 16
  %parts_at = getelementptr i8, ptr %slot, i64 20
  %start_at = getelementptr i8, ptr %slot, i64 32
  %step_at = getelementptr i8, ptr %slot, i64 40
  %chunk_at = getelementptr i8, ptr %slot, i64 48
  %count_at = getelementptr i8, ptr %slot, i64 56
  %turn_at = getelementptr i8, ptr %slot, i64 64
  %part_short = load i32, ptr %part_at
  %parts_short = load i32, ptr %parts_at
  %part = zext i32 %part_short to i64
  %parts = zext i32 %parts_short to i64
  %start = load i64, ptr %start_at
  %step = load i64, ptr %step_at
  %chunk = load i64, ptr %chunk_at
  %count = load i64, ptr %count_at
  %turn = load i64, ptr %turn_at
  %next_turn = add i64 %turn, 1
  store i64 %next_turn, ptr %turn_at
  %once = icmp eq i64 %chunk, 0
  br i1 %once, label %whole, label %chunks
whole:
  %each = udiv i64 %count, %parts
  %rest = urem i64 %count, %parts
  %longer = icmp ult i64 %part, %rest
  %one = zext i1 %longer to i64
  %mine = add i64 %each, %one
  %shift = select i1 %longer, i64 0, i64 %rest
  %base = mul i64 %mine, %part
  %whole_first = add i64 %base, %shift
  %whole_behind = add i64 %whole_first, %mine
  %is_first_turn = icmp eq i64 %turn, 0
  br i1 %is_first_turn, label %check, label %none
chunks:
  %round = mul i64 %turn, %parts
  %index = add i64 %round, %part
  %chunk_first = mul i64 %index, %chunk
  %chunk_end = add i64 %chunk_first, %chunk
  %chunk_behind = call i64 @llvm.smin.i64(i64 %chunk_end, i64 %count)
  br label %check
check:
  %first = phi i64 [ %whole_first, %whole ], [ %chunk_first, %chunks ]
  %behind = phi i64 [ %whole_behind, %whole ], [ %chunk_behind, %chunks ]
  %some = icmp slt i64 %first, %behind
  br i1 %some, label %give, label %none
give:
  %first_steps = mul i64 %first, %step
  %behind_steps = mul i64 %behind, %step
  %begin = add i64 %start, %first_steps
  %end = add i64 %start, %behind_steps
  store i64 %begin, ptr %from
  store i64 %end, ptr %to
  ret i8 1
none:
  ret i8 0
}

define void @<name>.GOMP_loop_end_nowait() nounwind {
  ret void
}
"""

_ENDING = """
define void @<name>.end_of_thread(ptr %slot) nounwind {
  %team = load ptr, ptr %slot
  %none = icmp eq ptr %team, null
  br i1 %none, label %end, label %dismiss
dismiss:
  %process_at = getelementptr i8, ptr %team, i64 260
  %process = load i32, ptr %process_at
  %here = call i32 @getpid()
  %forked = icmp ne i32 %process, %here
  br i1 %forked, label %end, label %stop
stop:
  %stop_at = getelementptr i8, ptr %team, i64 12
  %workers_at = getelementptr i8, ptr %team, i64 256
  %threads = getelementptr i8, ptr %team, i64 512
  store atomic i32 1, ptr %stop_at seq_cst, align 4
  %before = load atomic i64, ptr %team monotonic, align 8
  %number = lshr i64 %before, 32
  %next = add i64 %number, 1
  %word = shl i64 %next, 32
  store atomic i64 %word, ptr %team seq_cst, align 8
  call void @<name>.wake(ptr %team, i32 2147483647)
  %workers = load i32, ptr %workers_at
  %count = zext i32 %workers to i64
  br label %test
test:
  %i = phi i64 [ 0, %stop ], [ %following, %join ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %join, label %gone
join:
  %thread_at = getelementptr i64, ptr %threads, i64 %i
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
