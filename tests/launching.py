"""Running a launch by itself, in exactly the scratch memory that it asks for, and a kernel that a test writes."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tazza.codegen.kernel import compiled
from tazza.codegen.term import Lines, Term
from tazza.device import Generator, current_context
from tazza.operator import Array, Launch, Operands
from tazza.operator.reorder import bind_reorder
from tazza.runtime.native import call_native
from tazza.tensor import Allocation, CPUPlace, DataType, Opaque, Storage, Tensor

FLOATS_BEHIND = 1 << 14
"""What is watched behind the scratch memory, and before it."""
MARK = np.float32(-7.25)


def call_alone(launch: Launch, tensors: Mapping[str, Tensor]) -> None:
    """Run a launch in scratch memory full of NaN; assert that it wrote neither before it nor behind it."""
    floats = -(-launch.scratch_bytes // 4)
    memory = np.full(2 * FLOATS_BEHIND + floats + 16, MARK, np.float32)
    start = FLOATS_BEHIND + (-memory[FLOATS_BEHIND:].ctypes.data % 64) // 4
    own = memory[start : start + floats]
    own[:] = np.nan
    launch.bind(Operands(tensors, Allocation.adopt(own), Generator, current_context(CPUPlace())))()
    assert (memory[:start] == MARK).all(), "it wrote before its scratch memory"
    assert (memory[start + floats :] == MARK).all(), f"it wrote behind {launch.scratch_bytes} bytes of scratch memory"


def kernel_of(name: str, work: Callable[[Lines], None], finish: Callable[[Lines], None] | None = None) -> int:
    """Return the address of a kernel that a test writes.

    It is known by its text too: kernels outlive the run of the tests, and what writes this one may have changed.
    """
    texts = [Lines(), Lines()]
    for text, write in zip(texts, (work, finish), strict=True):
        text.label("entry")
        if write is not None:
            write(text)
    digest = hashlib.sha256("\n".join(texts[0].lines + texts[1].lines).encode()).hexdigest()
    return compiled(f"test of {name}", work, finish, sources=digest)


def run_kernel(name: str, work: Callable[[Lines], None], threads: int, *words: int) -> None:
    """Compile and run a kernel whose block holds the words behind the number of threads."""
    block = (ctypes.c_int64 * (1 + len(words)))(threads, *words)
    assert call_native(kernel_of(name, work), ctypes.addressof(block), threads=threads) == 0


def copied_into(source: Tensor, layout: Opaque, dtype: DataType = DataType.FLOAT) -> Array:
    """Return all elements of the form that a copy of a tensor has in a layout, in the order of memory."""
    target = Tensor.over(Storage(source.place), 0, replace(source.spec, layout=layout))
    target.reserve()
    bind_reorder(source, target, current_context(CPUPlace()))()
    return target.storage.window(dtype, (layout.nbytes // dtype.itemsize,), 0, None).copy()


def word_at(lines: Lines, k: int) -> Term:
    """Return word k of the block."""
    return lines.block_start[k]


def pointer_at(lines: Lines, k: int) -> Term:
    """Return the address of floats that is word k of the block."""
    return lines.block_start.at(k).of("ptr").load().of("float")
