"""The engine `cuda`: kernels of our own for NVIDIA's GPUs, made of the formulas and row programs that operators state.

LLVM (package llvmlite) makes PTX of them, which the driver's own assembler makes code of the device of; no toolkit is
needed. Operators with a formula or a program of rows get their kernels on demand, no file names them; those that move
numbers about have files here, written with `threads`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tazza.codegen.kernel import Sources
from tazza.device import initialize_devices
from tazza.operator import KERNELS, SCHEMAS, Kernel, engine, kernel_key
from tazza.operator.index import MAKERS
from tazza.operator.kernel import Prepare
from tazza.operator.row_program import ROW_RULES
from tazza.runtime.native_code import unavailable as no_compiler

KIND = "cuda"


def unavailable() -> str | None:
    """Return why no kernel can be made, or run, or None."""
    reason = initialize_devices().absent.get(KIND)
    return no_compiler() if reason is None else reason


SOURCES = Sources(Path(__file__).parent)
CUDA = engine(
    KIND,
    "what is compiled here for NVIDIA's GPUs: formulas, programs of rows, gathers, segments, updates of rows, images",
    device=KIND,
    priority=15,
    unavailable=unavailable,
    version=SOURCES.version,
)


def make_on_demand(type: str, prepare: Prepare, help: str, **how: Any) -> None:
    """Register a kernel that is made when it is asked for, so that no index lists it, unless there is one."""
    key = kernel_key(type, KIND, KIND)
    KERNELS.setdefault(key, Kernel(*key, prepare=prepare, **how), help=help)


def make_kernel(type: str) -> None:
    """Register the kernel of an operator type that has a formula, of elements or of rows, or reads nothing there."""
    found = SCHEMAS.get(type)
    if found is None:
        return
    if found.formulas is not None:
        from tazza.engines.cuda.pointwise import register_formula

        register_formula(found)
    elif type in ROW_RULES:
        from tazza.engines.cuda.rows import register_rows

        register_rows(found)
    else:
        from tazza.engines.cuda.made_on_host import register_host_made

        register_host_made(found)


MAKERS.register(
    (KIND, KIND), make_kernel, help="kernels of operators that have a formula, or read nothing of the device"
)
