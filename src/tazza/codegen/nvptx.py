"""Kernels for NVIDIA's GPUs: the same lines, in LLVM's NVPTX target, which llvmlite contains.

A kernel is run by a grid of blocks of threads. It finds out who it is by `place`, threads of a block wait for each
other at a barrier, and share an array. Addresses are generic within a kernel; from those of its arguments LLVM sees
which memory is meant. So arithmetic, memory access and loops are written by what writes them for the CPU, in vectors
of one lane.

`thread_text` makes code for the CPU of a kernel's text, in which a thread of the GPU is one of the system's: address
spaces go, and what a GPU knows is asked of functions from outside. So kernels can be run, and judged, without a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tazza.codegen.emit import Lanes, Lines
from tazza.codegen.kernel import METADATA
from tazza.codegen.loop import carry_loop, load, store
from tazza.codegen.rows import element, when
from tazza.codegen.vector import Emission
from tazza.runtime.native_code import llvm_binding
from tazza.tensor import DataType
from tazza.tensor.expression import Expression

TRIPLE = "nvptx64-nvidia-cuda"
OLDEST = "sm_70"
"""The oldest GPUs that code is made for: Volta."""
FLOAT = DataType.FLOAT
OUTSIDE = {
    "llvm.nvvm.read.ptx.sreg.tid.x": "tazza.thread",
    "llvm.nvvm.read.ptx.sreg.ctaid.x": "tazza.block",
    "llvm.nvvm.barrier0": "tazza.barrier",
}
"""What a GPU knows, and the function that is asked in its place on a CPU."""


@dataclass(frozen=True)
class GridKernel:
    """The lines of a kernel: addresses and numbers that it is given, and how many floats the threads of a block share.

    In the lines an argument X is `%X`: an address, or an int64.
    """

    addresses: tuple[str, ...]
    numbers: tuple[str, ...]
    shared_floats: int
    write: Callable[[Lines], None]

    def text(self, name: str) -> str:
        """Return the module."""
        lines = Lines()
        lines.label("entry")
        for one in self.addresses:
            lines.do(f"%{one} = addrspacecast ptr addrspace(1) %{one}.global to ptr")
        self.write(lines)
        lines.do("ret void")
        given = [
            *(f"ptr addrspace(1) %{one}.global" for one in self.addresses),
            *(f"i64 %{one}" for one in self.numbers),
        ]
        body = lines.text(f"ptx_kernel void @{name}({', '.join(given)})", "nounwind")
        head = [f'target triple = "{TRIPLE}"']
        if self.shared_floats:
            head.append(f"@shared = internal addrspace(3) global [{self.shared_floats} x float] undef, align 16")
        return "\n".join((*head, *lines.declared, body, METADATA))


def ptx_of(text: str, processor: str = OLDEST) -> str:
    """Return the PTX of a module.

    Raises:
        UnavailableError: llvmlite is missing.
    """
    llvm: Any = llvm_binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=processor, opt=3)
    module = llvm.parse_assembly(text)
    module.verify()
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))


def thread_text(text: str) -> str:
    """Return the same module for a CPU; each function is what one thread of a block does."""
    for known, asked in OUTSIDE.items():
        text = text.replace(f"@{known}(", f"@{asked}(")
    text = re.sub(r"target triple = .*\n", "", text.replace("ptx_kernel ", ""))
    # Between addresses of one space nothing is left to cast.
    return re.sub(r" addrspace\(\d\)", "", text).replace("addrspacecast", "bitcast")


# -- what kernels ask --------------------------------------------------------------------------------------------------


def _asked(lines: Lines, name: str) -> str:
    lines.declare(f"i32 @{name}()")
    return lines.let(f"zext i32 {lines.let(f'call i32 @{name}()')} to i64")


def place(lines: Lines) -> tuple[str, str]:
    """Return the number of this thread in its block, and that of the block."""
    thread, block = list(OUTSIDE)[:2]
    return _asked(lines, thread), _asked(lines, block)


def barrier(lines: Lines) -> None:
    """Let all threads of the block come here; what they wrote can be read behind it."""
    lines.declare("void @llvm.nvvm.barrier0()")
    lines.do("call void @llvm.nvvm.barrier0()")


# -- kernels -----------------------------------------------------------------------------------------------------------


def elementwise(result: Expression, names: Sequence[str], threads: int) -> GridKernel:
    """Return the kernel of Y = a formula over arrays of `n` float32, an element for each thread."""

    def write(lines: Lines) -> None:
        v = Lanes(lines, 1)
        thread, block = place(lines)
        i = lines.let(f"add i64 {lines.let(f'mul i64 {block}, {threads}')}, {thread}")

        def one() -> None:  # Y[i] = result(X[i] ...)
            values = {name: load(v, FLOAT, f"%{name}", i, None) for name in names}
            store(v, FLOAT, Emission(v, values).write(result), "%Y", i, None)

        when(lines, lines.let(f"icmp slt i64 {i}, %n"), one)

    return GridKernel((*names, "Y"), ("n",), 0, write)


def row_sums(threads: int) -> GridKernel:
    """Return the kernel of Y[r] = the sum of X[r, :], of `D` float32 each; a block for each row.

    Thread t adds up every element t, t + T, t + 2 T ... of its row. The T sums lie in the shared array, where one half
    is added to the other, until one is left; T is a power of two. The order is fixed, so the result is.
    """

    def write(lines: Lines) -> None:
        v = Lanes(lines, 1)
        thread, row = place(lines)
        X = element(lines, "%X", lines.let(f"mul i64 {row}, %D"))
        left = lines.let(f"sub i64 {lines.let(f'add i64 %D, {threads - 1}')}, {thread}")

        def add(k: str, sums: Sequence[str]) -> Sequence[str]:  # S[t] += X[r, t + k T]
            i = lines.let(f"add i64 {lines.let(f'mul i64 {k}, {threads}')}, {thread}")
            return [v.add(sums[0], load(v, FLOAT, X, i, None))]

        turns = lines.let(f"sdiv i64 {left}, {threads}")
        (total,) = carry_loop(v, "0", turns, [v.constant(0.0)], add)
        S = lines.let("addrspacecast ptr addrspace(3) @shared to ptr")
        store(v, FLOAT, total, S, thread, None)
        step = threads // 2
        while step:  # S[t] += S[t + step], for t < step
            barrier(lines)
            when(lines, lines.let(f"icmp slt i64 {thread}, {step}"), lambda step=step: _add_half(v, S, thread, step))
            step //= 2
        when(lines, lines.let(f"icmp eq i64 {thread}, 0"), lambda: _copy_first(v, S, row))

    return GridKernel(("X", "Y"), ("D",), threads, write)


def _add_half(v: Lanes, S: str, thread: str, step: int) -> None:
    other = load(v, FLOAT, S, v.lines.let(f"add i64 {thread}, {step}"), None)
    store(v, FLOAT, v.add(load(v, FLOAT, S, thread, None), other), S, thread, None)


def _copy_first(v: Lanes, S: str, row: str) -> None:
    store(v, FLOAT, load(v, FLOAT, S, "0", None), "%Y", row, None)
