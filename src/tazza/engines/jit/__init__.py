"""The engine `jit`: pointwise formulas, parameter updates and small reductions as machine code of our own.

Expressions become vector code through LLVM (package llvmlite); threads are those of libgomp, which oneDNN uses too.
Operators whose families state a formula get their kernel on demand; the others have files named like the family. Lazy
expressions are compiled by the same means (`lazy.py`, `reduction.py`).
"""

from __future__ import annotations

import functools
from pathlib import Path

from tazza.operator import SCHEMAS, engine
from tazza.operator.index import MAKERS
from tazza.runtime.native_code import llvm_version, source_digest
from tazza.runtime.native_code import unavailable as no_compiler
from tazza.runtime.openmp import openmp_unavailable
from tazza.tensor.place import CPU_KIND


@functools.cache
def unavailable() -> str | None:
    """Return why nothing can be compiled, or None."""
    reason = no_compiler()
    return openmp_unavailable() if reason is None else reason


def code_version(folder: Path) -> str:
    """Return a text that changes with the kernels that the modules of a folder write, by the means of this one."""
    return f"{source_digest(*folder.glob('*.py'), *Path(__file__).parent.glob('*.py'))} by LLVM of {llvm_version()}"


JIT = engine("jit", "compiled vector loops for pointwise operators and updates", priority=15, unavailable=unavailable)


def make_kernel(type: str) -> None:
    """Register the kernel of an operator type that has a formula."""
    found = SCHEMAS.get(type)
    if found is not None and found.formulas is not None:
        from tazza.engines.jit.pointwise import register_formula

        register_formula(found)


MAKERS.register((CPU_KIND, "jit"), make_kernel, help="kernels of operators that have a formula")
