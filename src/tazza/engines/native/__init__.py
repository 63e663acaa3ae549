"""The engine `native`: pointwise formulas, parameter updates and small reductions as machine code of our own.

Expressions become vector code through LLVM (package llvmlite); threads are those of libgomp, which oneDNN uses too.
Operators whose families state a formula get their kernel on demand; the others have files named like the family. Lazy
expressions are compiled by the same means (`lazy.py`, `reduction.py`).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tazza.codegen.kernel import Sources, unavailable
from tazza.codegen.prepare import compiles
from tazza.operator import SCHEMAS, engine
from tazza.operator.index import MAKERS
from tazza.operator.row_program import ROW_RULES
from tazza.tensor.place import CPU_KIND

SOURCES = Sources(Path(__file__).parent)
NATIVE = engine(
    "native", "what is compiled here: loops of formulas, updates, reductions", priority=15, unavailable=unavailable
)
native = partial(compiles, engine="native")
"""The decorator of kernels, functions of letters; those of variants name their engine."""


def make_kernel(type: str) -> None:
    """Register the kernel of an operator type that has a formula, of elements or of rows."""
    found = SCHEMAS.get(type)
    if found is None:
        return
    if found.formulas is not None:
        from tazza.engines.native.pointwise import register_formula

        register_formula(found)
    elif type in ROW_RULES:
        from tazza.engines.native.row_program import register_rows

        register_rows(found)


MAKERS.register((CPU_KIND, "native"), make_kernel, help="kernels of operators that have a formula")
