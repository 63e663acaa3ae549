"""A child that runs compiled kernels with ever so little room: `python -m tests.engines.scant_memory ENGINE TYPE ...`.

Of each operator one problem is run with all the memory there is, so that what it loads is loaded; a second one, for
which other code is generated, is tried with nothing left in the heap and a little more room each time, until it runs.
The type is told before it is tried. Whatever is lacking, an outcome is a result or a typed error.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from pathlib import Path

from tazza.errors import KernelError, TazzaError
from tazza.operator import Operator
from tazza.workspace import Workspace
from tests.judge.draw import Problem, draw

KIB = 1024
STEPS_KIB = (*range(0, 800, 40), *range(800, 3200, 200), 1 << 14, 1 << 16, 1 << 19)
"""From nothing over what a kernel's code takes (256 KiB) to more than any compiler wants."""
PIECES = (1 << 16, 4096, 512)
"""What the heap is filled with; smaller ones stay free, which protobuf and the C of CPython do not bear to lack."""


def main(engine: str, types: list[str]) -> None:
    """Try each type."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    malloc = ctypes.CDLL(None).malloc
    malloc.restype = ctypes.c_void_p
    ready: list[tuple[str, Operator]] = []
    for type in types:
        _run(_made(draw(type, 3), engine))
        ready.append((type, _made(draw(type, 11), engine)))
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for type, operator in ready:
        print(type, flush=True)
        for room in STEPS_KIB:
            _limit(mapped)
            for size in PIECES:
                while malloc(size):
                    pass
            _limit(mapped + room * KIB)
            if _runs(operator):
                break
        _limit(None)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _limit(bytes: int | None) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY if bytes is None else bytes, resource.RLIM_INFINITY))


def _made(problem: Problem, engine: str) -> Operator:
    workspace = Workspace()
    for name in problem.inputs:
        workspace.feed(name, problem.value(name))
    problem.definition.engine = engine
    return Operator(problem.definition, workspace)


def _run(operator: Operator) -> None:
    try:
        operator.run()
    except KernelError:
        raise
    except TazzaError:
        pass  # a problem that this engine refuses


def _runs(operator: Operator) -> bool:
    """Whether it ran, or was refused as it would be with all the memory; what it lacks must be told as such."""
    try:
        operator.run()
    except MemoryError:
        return False
    except KernelError as error:
        if isinstance(error.__cause__, SystemError):  # a function of NumPy that lost its MemoryError
            return False
        raise
    except TazzaError:
        pass
    return True


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
