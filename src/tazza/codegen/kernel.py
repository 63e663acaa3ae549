"""Kernels: the text of one over an argument block, what is worth a thread, and the machine code of it.

A kernel is `int64_t f(int64_t *block)`; its block begins with the number of threads. With more than one, libgomp runs
`work(block, i, n)` for thread i of n, else it is called once, for 0 of 1; then comes `finish(block)`, which gives the
status. Every element is computed by the same instructions wherever the borders between threads fall.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from tazza.codegen.term import Lines
from tazza.data_class import dataclass
from tazza.runtime.machine import machine
from tazza.runtime.native_code import llvm_version, native_function, processor, source_digest
from tazza.runtime.native_code import unavailable as no_compiler
from tazza.runtime.openmp import openmp_address, openmp_unavailable
from tazza.runtime.threads import thread_count


@functools.cache
def unavailable() -> str | None:
    """Return why nothing can be compiled, or None."""
    reason = no_compiler()
    return openmp_unavailable() if reason is None else reason


THREAD_NS = 10_000
"""What a thread must have to do at the least, in nanoseconds; waking one costs a few thousand."""
MEMORY_SHARE, COMPUTE_SHARE = 0.55, 0.042
"""Parts of the rates of the machine that one thread gets through."""


def threads_for(most: int, elements: int, flops: float, nbytes: float) -> int:
    """Return how many threads, up to `most`, are worth while; flops and bytes are those of one element."""
    model = machine()
    bytes_ns = nbytes / (MEMORY_SHARE * model.memory_bytes_per_ns)
    work_ns = elements * max(bytes_ns, flops / (COMPUTE_SHARE * model.flops_per_ns))
    return max(1, min(most, int(work_ns / THREAD_NS)))


def threads_of(elements: int, flops: float, nbytes: float, parts: int | None = None) -> int:
    """Return how many threads of the process are worth while, and no more than parts; otherwise as `threads_for`."""
    most = thread_count()
    return threads_for(most if parts is None else min(most, max(1, parts)), elements, flops, nbytes)


def lane_count(bits: int = 32) -> int:
    """Return how many floats of so many bits a vector of this processor holds."""
    return processor().vector_bytes * 8 // bits


Write = Callable[[Lines], None]


def function_text(name: str, lines: Lines, finish: Lines) -> str:
    """Return the module of a kernel: work over %block, %who and %many, then finish over %block."""
    declared = dict.fromkeys((*lines.declared, *finish.declared))
    ending = finish.text(f"internal i64 @{name}.finish(ptr noalias %block)", "nounwind")
    work = lines.text(f"internal void @{name}.work(ptr noalias %block, i64 %who, i64 %many)", "nounwind")
    return "\n".join((*declared, _ENTRY.format(name=name), work, ending, METADATA))


_ENTRY = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
declare i32 @omp_get_num_threads()

define internal void @{name}.part(ptr %block) nounwind {{
  %i = call i32 @omp_get_thread_num()
  %n = call i32 @omp_get_num_threads()
  %who = zext i32 %i to i64
  %many = zext i32 %n to i64
  call void @{name}.work(ptr %block, i64 %who, i64 %many)
  ret void
}}

define i64 @{name}(ptr %block, i64 %b, i64 %c, i64 %d) nounwind {{
  %threads = load i64, ptr %block
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %parallel, label %alone
parallel:
  %n = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @{name}.part, ptr %block, i32 %n, i32 0)
  br label %end
alone:
  call void @{name}.work(ptr %block, i64 0, i64 1)
  br label %end
end:
  %status = call i64 @{name}.finish(ptr %block)
  ret i64 %status
}}
"""

METADATA = """
!0 = !{!"branch_weights", i32 1, i32 1000}
!1 = distinct !{!1, !{!"llvm.loop.unroll.disable"}}
!2 = !{i32 1}
"""
"""0: what is rare; 1: a loop of so few turns that unrolling it only costs; 2: stores that pass by the caches."""


@functools.cache
def _symbols() -> dict[str, int]:
    names = ("GOMP_parallel", "GOMP_barrier", "omp_get_thread_num", "omp_get_num_threads")
    return {name: openmp_address(name) for name in names}


def compiled(
    description: str, work: Write, finish: Write | None = None, *, sources: str = "", rewrite: bool = True
) -> int:
    """Return the address of the kernel whose parts `work` and `finish` write; `description` tells it apart.

    `sources` is the digest of the code that writes them, where it is not here; `rewrite` as for
    `native_function`.
    """

    def build(name: str) -> str:
        lines, ending = Lines(), Lines()
        lines.label("entry")
        work(lines)
        lines.do("ret void")
        ending.label("entry")
        if finish is None:
            ending.do("ret i64 0")
        else:
            finish(ending)
        return function_text(name, lines, ending)

    # Tests ask for narrower vectors than there are: that is other code.
    told = f"{description} / {processor().vector_bytes}"
    return native_function(told, build, symbols=_symbols(), sources=OWN.digest + sources, rewrite=rewrite)


@dataclass(frozen=True)
class Sources:
    """The code that writes an engine's kernels: all that lies in a folder and below. A change of it makes new ones."""

    folder: Path

    @functools.cached_property
    def digest(self) -> str:
        """What changes with it."""
        return source_digest(*self.folder.rglob("*.py"))

    def version(self) -> str:
        """Return a text that changes with what these kernels compute: with their code, and that of this package."""
        return f"{self.digest} {OWN.digest} by LLVM of {llvm_version()}"

    def compiled(self, description: str, work: Write, finish: Write | None = None, *, rewrite: bool = True) -> int:
        """Return the address of a kernel, as the function `compiled`."""
        return compiled(description, work, finish, sources=self.digest, rewrite=rewrite)


OWN = Sources(Path(__file__).parent)
