"""Kernels for NVIDIA's GPUs: the same lines, in LLVM's NVPTX target, which llvmlite contains.

A kernel is run by a grid of blocks of threads. It finds out who it is by `place`, threads of a block wait for each
other at a barrier, and share an array. Its argument is a block of words, as on the CPU; of addresses in it LLVM knows
that they are the device's. So arithmetic, memory access and loops are written by what writes them for the CPU, in
vectors of one lane.

`thread_text` makes code for the CPU of a kernel's text, in which a thread of the GPU is one of the system's: address
spaces go, and what a GPU knows is asked of functions from outside. So kernels can be run, and judged, without a GPU.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tazza.codegen.grid_math import defined
from tazza.codegen.kernel import METADATA
from tazza.codegen.special import POWER
from tazza.codegen.term import Lines, Term
from tazza.data_class import dataclass
from tazza.runtime.native_code import kept_code, llvm_binding, source_digest

TRIPLE = "nvptx64-nvidia-cuda"
OLDEST = "sm_70"
"""The oldest GPUs that code is made for: Volta."""
THREAD, BLOCK = "llvm.nvvm.read.ptx.sreg.tid.x", "llvm.nvvm.read.ptx.sreg.ctaid.x"
BARRIER, WARP_BARRIER = "llvm.nvvm.barrier0", "llvm.nvvm.bar.warp.sync"
EXCHANGE = "llvm.nvvm.shfl.sync.bfly.i32"
OUTSIDE = {
    THREAD: "tazza.thread",
    BLOCK: "tazza.block",
    BARRIER: "tazza.barrier",
    WARP_BARRIER: "tazza.warp.barrier",
    EXCHANGE: "tazza.exchange",
}
"""What a GPU knows, and the function that is asked in its place on a CPU."""
MEETING = (BARRIER, WARP_BARRIER, EXCHANGE)
"""Those of them for which threads wait for each other."""
WARP = 32
"""Threads that go on together, and can exchange numbers."""


@dataclass(frozen=True)
class GridKernel:
    """The lines of a kernel over an argument block of so many words, which each launch hands over whole.

    In the lines `%block` is its address; words of it are addresses and numbers, as in kernels of the CPU.
    """

    words: int
    write: Callable[[Lines], None]
    shared_doubles: int = 0
    """How many float64 the threads of a block of threads share."""
    most_threads: int = 0
    """Of a block, where it may have so many that registers have to be shared out among them."""

    def text(self, name: str) -> str:
        """Return the module.

        Raises:
            UnsupportedError: it calls a function of libm that is not written for a GPU.
        """
        lines = Lines(grid=True)
        lines.label("entry")
        self.write(lines)
        lines.do("ret void")
        body = lines.text(f"ptx_kernel void @{name}(ptr byval([{self.words} x i64]) align 8 %block)", "nounwind")
        head = [f'target triple = "{TRIPLE}"']
        if self.shared_doubles:
            head.append(f"@shared = internal addrspace(3) global [{self.shared_doubles} x double] undef, align 16")
        limit = _LIMIT.format(name=name, threads=self.most_threads) if self.most_threads else ""
        return "\n".join((*head, *defined(lines.declared), body, METADATA, limit))


_LIMIT = """
!nvvm.annotations = !{{!3}}
!3 = !{{ptr @{name}, !"maxntidx", i32 {threads}}}
"""
"""How LLVM is told of the most threads of a block; newer ones make an attribute of it."""


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel's code for the driver's assembler, and what the kernel is called in it."""

    name: str
    ptx: str


@functools.cache
def _own_sources() -> str:
    return source_digest(*Path(__file__).parent.glob("*.py"))


def code_of(description: str, kernel: Callable[[], GridKernel], sources: str = "") -> Code:
    """Return the code of the kernel that a description tells apart, made now, before, or by an earlier process.

    `sources` is the digest of the code that writes it, where it is not here.

    Raises:
        UnavailableError: llvmlite is missing.
        UnsupportedError: as `GridKernel.text`.
    """
    key = f"{OLDEST} {description}\n{_own_sources()}{sources}"
    name, ptx = kept_code(key, "ptx", lambda name: ptx_of(kernel().text(name)).encode())
    return Code(name, ptx.decode())


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
    text = text.replace(' syncscope("device")', "").replace(f"@{POWER}(", "@llvm.exp2.f32(")
    text = re.sub(r"target triple = .*\n|byval\(.*?\) align 8 ", "", text.replace("ptx_kernel ", ""))
    # Between addresses of one space nothing is left to cast.
    return re.sub(r" addrspace\(\d\)", "", text).replace("addrspacecast", "bitcast")


# -- what kernels ask --------------------------------------------------------------------------------------------------


def _asked(lines: Lines, name: str) -> Term:
    return lines.call("i32", name).to_unsigned("i64")


def place(lines: Lines) -> tuple[Term, Term]:
    """Return the number of this thread in its block, and that of the block."""
    return _asked(lines, THREAD), _asked(lines, BLOCK)


def shared(lines: Lines) -> Term:
    """Return the address of what the threads of a block share."""
    return lines.let("ptr", "addrspacecast ptr addrspace(3) @shared to ptr").of("double")


def barrier(lines: Lines) -> None:
    """Let all threads of the block come here; what they wrote can be read behind it."""
    lines.call_for_effect(BARRIER)


def warp_barrier(lines: Lines) -> None:
    """Let all threads of the warp come here."""
    lines.call_for_effect(WARP_BARRIER, lines.number(-1, "i32"))


def exchange(value: Term, distance: int) -> Term:
    """Return the i32 of the thread whose number in the warp differs in the bit `distance`; all threads come here."""
    all_threads, apart, last = (value.lines.number(one, "i32") for one in (-1, distance, WARP - 1))
    return value.lines.call("i32", EXCHANGE, all_threads, value, apart, last)
