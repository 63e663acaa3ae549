"""What the machine can do: the rate of matrix products and of copies, as the best library here reaches it.

python -m benchmarks.machine THREADS    prints one line of JSON: 10^9 operations, 10^9 bytes a second
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.job import BFLOAT16, FLOAT32

SIDE = 2048
"""Rows and columns of the matrices."""
COPY_BYTES = 256 << 20
SECONDS = 0.6
"""How long each library is tried."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of the machine with the number of threads that was asked for."""

    threads: int
    gemm_gflops: dict[str, float] = field(default_factory=dict[str, float])
    """10^9 operations a second in products of large matrices, by precision."""
    copy_gbytes: float = 0.0
    """10^9 bytes a second that a large copy reads and writes, both counted."""
    processor: str = ""
    bfloat16: bool = True
    """Whether the processor computes in bfloat16 itself; False only where the system says so."""


def best_rate(run: Callable[[], object], work: float, seconds: float = SECONDS) -> float:
    """Return `work` over the shortest time of a run, tried for some seconds."""
    run()
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        before = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - before)
    return work / best


def measure(threads: int) -> Machine:
    """Measure with the libraries that this Python has."""
    import numpy as np

    random = np.random.default_rng(0)
    a, b = (random.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    operations = 2.0 * SIDE**3 / 1e9
    out = np.empty_like(a)
    rates = {FLOAT32: [best_rate(lambda: np.matmul(a, b, out=out), operations)], BFLOAT16: []}
    if find_spec("torch") is not None:
        torch: Any = import_module("torch")
        torch.set_num_threads(threads)
        for precision, dtype in ((FLOAT32, torch.float32), (BFLOAT16, torch.bfloat16)):
            x, y = (torch.from_numpy(value).to(dtype) for value in (a, b))
            rates[precision].append(best_rate(lambda x=x, y=y: torch.mm(x, y), operations))
    if find_spec("tazza") is not None:
        rates[FLOAT32].append(best_rate(_tazza_product(a, b), operations))
    source = np.ones(COPY_BYTES, np.uint8)
    target = np.empty_like(source)
    copied = 2 * COPY_BYTES / 1e9
    copies = [best_rate(lambda: np.copyto(target, source), copied)]
    if find_spec("torch") is not None:
        torch = import_module("torch")
        pair = torch.from_numpy(target), torch.from_numpy(source)
        copies.append(best_rate(lambda: pair[0].copy_(pair[1]), copied))
    best = {name: max(found) for name, found in rates.items() if found}
    return Machine(threads, best, max(copies), processor_fact("model name"), has_bfloat16(processor_fact("flags")))


def _tazza_product(a: Any, b: Any) -> Callable[[], object]:
    """Return a call that multiplies by tazza's best engine."""
    from tazza.operator import operator_def
    from tazza.proto import NetDef
    from tazza.workspace import Workspace

    ws = Workspace()
    ws.feed("a", a)
    ws.feed("b", b)
    return ws.create_net(NetDef(name="product", op=[operator_def("MatMul", ["a", "b"], ["y"])])).run


def processor_fact(name: str) -> str:
    """Return what the system tells of the first processor under a name; empty where it tells nothing."""
    file = Path("/proc/cpuinfo")
    if not file.exists():
        return ""
    lines = file.read_text(encoding="ascii", errors="replace").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")


def has_bfloat16(flags: str) -> bool:
    """Whether a processor with these flags computes in bfloat16; nothing known counts as yes.

    >>> has_bfloat16("sse avx512f"), has_bfloat16("avx512f avx512_bf16"), has_bfloat16("")
    (False, True, True)
    """
    return not flags or any(flag in ("avx512_bf16", "amx_bf16", "avx_ne_convert") for flag in flags.split())


def measured_by(pythons: Iterable[str], threads: int, folder: Path) -> Machine:
    """Measure in a process of each Python, one after the other, and return the best rates."""
    found: list[Machine] = []
    for python in dict.fromkeys(pythons):
        done = subprocess.run(
            [python, "-m", "benchmarks.machine", str(threads)],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        found.append(Machine(**json.loads(done.stdout.splitlines()[-1])))
    return best_of(found)


def best_of(machines: Iterable[Machine]) -> Machine:
    """Return the best rates of several measurements of one machine.

    >>> best_of([Machine(2, {"float32": 90.0}, 8.0), Machine(2, {"float32": 80.0}, 9.0)]).copy_gbytes
    9.0
    """
    every = list(machines)
    names = dict.fromkeys(name for each in every for name in each.gemm_gflops)
    rates = {name: max(each.gemm_gflops.get(name, 0.0) for each in every) for name in names}
    copy_gbytes = max(each.copy_gbytes for each in every)
    return Machine(every[0].threads, rates, copy_gbytes, every[0].processor, every[0].bfloat16)


def main() -> None:
    """Measure and print."""
    threads = int(sys.argv[1])
    from dataclasses import asdict

    print(json.dumps(asdict(measure(threads))))


if __name__ == "__main__":
    main()
