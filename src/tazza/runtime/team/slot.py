"""Slots: what each thread knows of the region that it is in, and of its turns of a loop."""

from __future__ import annotations

SLOT = """
define internal ptr @<name>.slot() nounwind {
  %key = call i32 @<name>.key()
  %found = call ptr @pthread_getspecific(i32 %key)
  %none = icmp eq ptr %found, null
  br i1 %none, label %new, label %end
new:
  %memory = call ptr @calloc(i64 1, i64 <slot_bytes>)
  %made = call ptr @<name>.given(ptr %memory)
  store i32 1, ptr <slot.parts of %made>
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
  %depth = load i32, ptr <slot.depth>
  %level = call i32 @llvm.smin.i32(i32 %depth, i32 <depth_max>)
  %wide = zext i32 %level to i64
  %offset = mul i64 %wide, <outer_bytes>
  %outer = getelementptr i8, ptr <slot.outer>, i64 %offset
  ret ptr %outer
}

define internal void @<name>.enter(ptr %slot, i32 %part, i32 %parts, i32 %active) nounwind {
  %outer = call ptr @<name>.outer(ptr %slot)
  call void @llvm.memcpy.p0.p0.i64(ptr %outer, ptr <slot.part>, i64 <outer_bytes>, i1 false)
  store i32 %part, ptr <slot.part>
  store i32 %parts, ptr <slot.parts>
  store i32 %active, ptr <slot.active>
  %depth = load i32, ptr <slot.depth>
  %deeper = add i32 %depth, 1
  store i32 %deeper, ptr <slot.depth>
  ret void
}

define internal void @<name>.leave(ptr %slot) nounwind {
  %depth = load i32, ptr <slot.depth>
  %less = sub i32 %depth, 1
  store i32 %less, ptr <slot.depth>
  %outer = call ptr @<name>.outer(ptr %slot)
  call void @llvm.memcpy.p0.p0.i64(ptr <slot.part>, ptr %outer, i64 <outer_bytes>, i1 false)
  ret void
}

"""

_NUMBER = """
define i32 @<name>.{function}() nounwind {{
  %slot = call ptr @<name>.slot()
  %number = load i32, ptr <slot.{field}>
  ret i32 %number
}}
"""
_TOLD = {"omp_get_thread_num": "part", "omp_get_num_threads": "parts", "omp_in_parallel": "active"}
"""Function -> the field that it returns."""
NUMBERS = "".join(_NUMBER.format(function=function, field=field) for function, field in _TOLD.items())

LOOP = """
define i8 @<name>.GOMP_loop_static_start(i64 %start, i64 %end, i64 %step, i64 %chunk, ptr %from, ptr %to) nounwind {
  %slot = call ptr @<name>.slot()
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
  store i64 %start, ptr <slot.start>
  store i64 %step, ptr <slot.step>
  store i64 %chunk, ptr <slot.chunk>
  store i64 %count, ptr <slot.count>
  store i64 0, ptr <slot.turn>
  %found = call i8 @<name>.GOMP_loop_static_next(ptr %from, ptr %to)
  ret i8 %found
}

define i8 @<name>.GOMP_loop_static_next(ptr %from, ptr %to) nounwind {
  %slot = call ptr @<name>.slot()
  %part_short = load i32, ptr <slot.part>
  %parts_short = load i32, ptr <slot.parts>
  %part = zext i32 %part_short to i64
  %parts = zext i32 %parts_short to i64
  %start = load i64, ptr <slot.start>
  %step = load i64, ptr <slot.step>
  %chunk = load i64, ptr <slot.chunk>
  %count = load i64, ptr <slot.count>
  %turn = load i64, ptr <slot.turn>
  %next_turn = add i64 %turn, 1
  store i64 %next_turn, ptr <slot.turn>
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
