"""Regions: beginning one, taking its parts, waiting for them, and workers.

Every atomic operation has a name behind it, as `; take`: docs/threads.md says for each why its memory order is enough,
and why a weaker one would not be. What is not atomic is read and written by one thread, or lies between two of these.
"""

from __future__ import annotations

WAITING = """
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

REGION = """
define internal ptr @<name>.own_team(ptr %slot) nounwind {
  %found = load ptr, ptr %slot
  %none = icmp eq ptr %found, null
  br i1 %none, label %new, label %end
new:
  %memory = call ptr @aligned_alloc(i64 64, i64 <team_bytes>)
  %made = call ptr @<name>.given(ptr %memory)
  %filled = call ptr @memset(ptr %made, i32 0, i64 <team_head_bytes>)
  %process = call i32 @getpid()
  store i32 %process, ptr <team.process of %made>
  store ptr %made, ptr %slot
  br label %end
end:
  %team = phi ptr [ %found, %0 ], [ %made, %new ]
  ret ptr %team
}

define internal void @<name>.hire(ptr %team, i32 %wanted) nounwind {
  %many = icmp ugt i32 %wanted, <workers_max>
  br i1 %many, label %lost, label %test
test:
  %workers = load i32, ptr <team.workers>
  %few = icmp ult i32 %workers, %wanted
  br i1 %few, label %more, label %end
more:
  %wide = zext i32 %workers to i64
  %thread = getelementptr i64, ptr <team.threads>, i64 %wide
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @<name>.work, ptr %team)
  %fails = icmp ne i32 %failed, 0
  br i1 %fails, label %lost, label %count
count:
  %now = add i32 %workers, 1
  store i32 %now, ptr <team.workers>
  br label %test
lost:
  call void @<name>.give_up()
  unreachable
end:
  ret void
}

define void @<name>.GOMP_parallel_start(ptr %function, ptr %data, i32 %asked) nounwind {
  %slot = call ptr @<name>.slot()
  %active = load i32, ptr <slot.active>
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
  store ptr %team, ptr <slot.team>
  store ptr %function, ptr <team.function>
  store ptr %data, ptr <team.data>
  call void @llvm.x86.sse.stmxcsr(ptr <team.mode>)
  store atomic i32 0, ptr <team.done> monotonic, align 4 ; clear
  %before = load atomic i64, ptr %team monotonic, align 8 ; own number
  %number = lshr i64 %before, 32
  %next = add i64 %number, 1
  %high = shl i64 %next, 32
  %wide = zext i32 %wanted to i64
  %middle = shl i64 %wide, 16
  %joined = or i64 %high, %middle
  %word = or i64 %joined, 1
  store atomic i64 %word, ptr %team seq_cst, align 8 ; publish
  call void @<name>.wake(ptr %team, i32 %others)
  call void @<name>.enter(ptr %slot, i32 0, i32 %wanted, i32 1)
  ret void
}

define internal void @<name>.wake(ptr %team, i32 %most) nounwind {
  %sleepers = load atomic i32, ptr <team.sleepers> seq_cst, align 4 ; anybody asleep
  %some = icmp sgt i32 %sleepers, 0
  br i1 %some, label %call, label %end
call:
  %woken = call i64 @syscall(i64 <futex>, ptr <team.number>, i32 <wake>, i32 %most, ptr null)
  br label %end
end:
  ret void
}

define internal i32 @<name>.take(ptr %team, ptr %slot, i1 %worker) nounwind {
  br label %look
look:
  %word = load atomic i64, ptr %team monotonic, align 8 ; look
  %taken = and i64 %word, 65535
  %shifted = lshr i64 %word, 16
  %parts = and i64 %shifted, 65535
  %left = icmp ult i64 %taken, %parts
  br i1 %left, label %try, label %none
try:
  %more = add i64 %word, 1
  %swap = cmpxchg ptr %team, i64 %word, i64 %more acquire monotonic ; take
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %look
run:
  %function = load ptr, ptr <team.function>
  %data = load ptr, ptr <team.data>
  br i1 %worker, label %follow, label %begin
follow:
  call void @llvm.x86.sse.ldmxcsr(ptr <team.mode>)
  br label %begin
begin:
  %part = trunc i64 %taken to i32
  %short = trunc i64 %parts to i32
  store i32 %part, ptr <slot.part>
  store i32 %short, ptr <slot.parts>
  call void %function(ptr %data)
  %former = atomicrmw add ptr <team.done>, i32 1 release ; done
  ret i32 1
none:
  ret i32 0
}

define void @<name>.GOMP_parallel_end() nounwind {
  %slot = call ptr @<name>.slot()
  %parts = load i32, ptr <slot.parts>
  %several = icmp sgt i32 %parts, 1
  br i1 %several, label %begin, label %end
begin:
  %team = load ptr, ptr <slot.team>
  br label %help
help:
  %took = call i32 @<name>.take(ptr %team, ptr %slot, i1 false)
  %again = icmp ne i32 %took, 0
  br i1 %again, label %help, label %gather
gather:
  %others = sub i32 %parts, 1
  br label %test
test:
  %looks = phi i64 [ 0, %gather ], [ %more, %wait ]
  %done = load atomic i32, ptr <team.done> acquire, align 4 ; gather
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

WORKER = """
define ptr @<name>.work(ptr %team) nounwind {
  %slot = call ptr @<name>.slot()
  store ptr %team, ptr <slot.team>
  store i32 1, ptr <slot.active>
  %most_at = getelementptr i64, ptr @tazza_team_settings, i64 1
  br label %begin
begin:
  br label %test
test:
  %looks = phi i64 [ 0, %begin ], [ %more, %wait ]
  %word = load atomic i64, ptr %team acquire, align 8 ; watch
  %taken = and i64 %word, 65535
  %shifted = lshr i64 %word, 16
  %parts = and i64 %shifted, 65535
  %left = icmp ult i64 %taken, %parts
  br i1 %left, label %join, label %idle
join:
  %took = call i32 @<name>.take(ptr %team, ptr %slot, i1 true)
  store i32 1, ptr <slot.parts>
  br label %begin
idle:
  %stop = load atomic i32, ptr <team.stop> monotonic, align 4 ; stopped
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
  %one = atomicrmw add ptr <team.sleepers>, i32 1 seq_cst ; lie down
  %seen = load atomic i64, ptr %team seq_cst, align 8 ; last look
  %same = icmp eq i64 %seen, %word
  br i1 %same, label %down, label %up
down:
  %high = lshr i64 %seen, 32
  %number = trunc i64 %high to i32
  %slept = call i64 @syscall(i64 <futex>, ptr <team.number>, i32 <wait>, i32 %number, ptr null)
  br label %up
up:
  %less = atomicrmw sub ptr <team.sleepers>, i32 1 monotonic ; get up
  br label %begin
end:
  ret ptr null
}
"""

BARRIER = """
define void @<name>.GOMP_barrier() nounwind {
  %slot = call ptr @<name>.slot()
  %parts = load i32, ptr <slot.parts>
  %several = icmp sgt i32 %parts, 1
  br i1 %several, label %arrive, label %end
arrive:
  %team = load ptr, ptr <slot.team>
  %before = load atomic i32, ptr <team.passed> monotonic, align 4 ; which barrier
  %former = atomicrmw add ptr <team.arrived>, i32 1 acq_rel ; arrive
  %now = add i32 %former, 1
  %last = icmp eq i32 %now, %parts
  br i1 %last, label %open, label %test
open:
  store atomic i32 0, ptr <team.arrived> monotonic, align 4 ; reset
  %next = add i32 %before, 1
  store atomic i32 %next, ptr <team.passed> release, align 4 ; open
  br label %end
test:
  %looks = phi i64 [ 0, %arrive ], [ %more, %wait ]
  %passed = load atomic i32, ptr <team.passed> acquire, align 4 ; pass
  %still = icmp eq i32 %passed, %before
  br i1 %still, label %wait, label %end
wait:
  %more = call i64 @<name>.rest(i64 %looks)
  br label %test
end:
  ret void
}
"""
