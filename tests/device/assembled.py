"""The assembler of NVIDIA's toolkit takes every kernel of our own, for several GPUs: python -m tests.device.assembled.

It comes with the package nvidia-cuda-nvcc (extra `ptxas`), or stands on the path. Nothing is run: the cases of all
families are prepared on the fake driver, which keeps the texts of the kernels that it is given; LLVM makes PTX of
each, and `ptxas` code. What a kernel takes of a GPU is printed: registers, and bytes that it spills.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from rich.progress import track

from tazza.codegen.nvptx import ptx_of
from tazza.device import device_option
from tazza.errors import TazzaError
from tazza.proto import OperatorDef
from tazza.testing import run
from tests.check import Case
from tests.device import cuda_driver
from tests.device.cublas_library import fake_gpu
from tests.device.cuda_cases import DEVICE, every_case
from tests.device.cuda_driver import SUCCESS, FakeCUDA
from tests.engines.cuda.halves import narrow_problems
from tests.engines.cuda.updates import TYPES, problem

PROCESSORS = ("sm_80", "sm_90", "sm_100")
NAME = re.compile(r"ptx_kernel void @(\w+)\(")
USED = re.compile(r"(\d+) bytes spill stores.*?Used (\d+) registers", re.DOTALL)


@functools.cache
def assembler() -> Path | None:
    """Return where `ptxas` is, or None."""
    found = importlib.util.find_spec("nvidia")
    folders = [] if found is None or found.submodule_search_locations is None else found.submodule_search_locations
    inside = sorted(path for folder in folders for path in Path(folder).glob("*/bin/ptxas"))
    on_path = shutil.which("ptxas")
    return inside[-1] if inside else None if on_path is None else Path(on_path)


Problem: TypeAlias = "tuple[OperatorDef, Sequence[Any]]"
"""An operator, and what it reads."""
WHY_NOT = "there is no ptxas: pip install 'tazza[ptxas]'"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a kernel takes of a GPU, or what the assembler says against it."""

    registers: int = 0
    spilled_bytes: int = 0
    complaint: str = ""


def assembled(text: str, processor: str) -> Taken:
    """Return what the assembler makes of a kernel's module for a GPU."""
    program = assembler()
    assert program is not None, WHY_NOT
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx_of(text, processor))
        command = [program, f"-arch={processor}", "--verbose", source, "-o", Path(folder, "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    used = USED.search(done.stderr)
    if done.returncode != 0 or used is None:
        return Taken(complaint=done.stderr.strip() or f"status {done.returncode}")
    return Taken(int(used[2]), int(used[1]))


@contextmanager
def _nothing_runs() -> Generator[FakeCUDA]:
    """Let there be a fake device that is given kernels, and runs none."""
    patch = pytest.MonkeyPatch()

    def compiled(*given: Any) -> None:
        del given

    def launched(*given: Any) -> int:
        del given
        return SUCCESS

    patch.setattr(cuda_driver, "grid_of", compiled)
    patch.setattr(FakeCUDA, "cuLaunchKernel", launched)
    try:
        with fake_gpu() as fake:
            yield fake.gpu
    finally:
        patch.undo()


def texts_of(problems: Iterable[Problem]) -> dict[str, str]:
    """Return the modules of all kernels that operators on such inputs need, by the name of the kernel."""
    with _nothing_runs() as gpu:
        for definition, inputs in problems:
            definition.device_option.CopyFrom(device_option(DEVICE))
            try:
                run(definition, inputs, "cuda")
            except TazzaError:  # it is refused, or what was not computed is no size
                continue
        texts = list(gpu.modules.values())
    return {NAME.findall(text)[0]: text for text in texts}


def of_cases(cases: Iterable[Case]) -> Iterator[Problem]:
    """Yield the operators of cases, and what they read."""
    for case in cases:
        yield case.definition("cuda"), case.arrays()


def _all_problems(every: int) -> Iterator[Problem]:
    yield from of_cases(list(every_case("cuda"))[::every])
    yield from list(narrow_problems())[::every]
    yield from map(problem, TYPES)


def main() -> None:
    """Assemble all kernels, and print what is wrong with them, and what they take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processors", nargs="+", default=list(PROCESSORS))
    parser.add_argument("--every", type=int, default=1, help="take one of so many cases")
    given = parser.parse_args()
    if assembler() is None:
        raise SystemExit(WHY_NOT)
    texts = texts_of(_all_problems(given.every))
    wrong = 0
    for processor in given.processors:
        found = [assembled(text, processor) for text in track(texts.values(), f"{len(texts)} kernels for {processor}")]
        for name, taken in zip(texts, found, strict=True):
            if taken.complaint:
                print(f"{name}: {taken.complaint}")
        bad = sum(bool(taken.complaint) for taken in found)
        spilling = sum(taken.spilled_bytes > 0 for taken in found)
        most = max((taken.registers for taken in found), default=0)
        print(f"{processor}: {len(found) - bad} of {len(found)} assembled, {spilling} spill, {most} registers at most")
        wrong += bad
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
