"""Copies of large blocks beside compute on one thread: how much longer both together take than the longer one alone.

    python -m benchmarks.nets.overlap [--quick] [--rounds 5] [--out out/bench-nets]

Stage i copies a block into one of two buffers, and multiplies what lies at its start by weights, as training does that
is fed from memory. All stages are one parallel net: copy i + 1 runs beside product i, and copy i + 2 waits for product
i, which reads its buffer. The block is as large as takes a copy as long as a product takes. Alone, each kind does its
share of all stages on one worker; together there are two workers, but one copy in the beginning, and one product in the
end, overlap with nothing.

A last run of both is observed, drawn (`overlap.png`), and written as a trace for Perfetto (`overlap.json`).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.nets.turns import in_turns, ratio
from tazza.device.context import CPUContext
from tazza.nets import NetBase
from tazza.observers.profile import Profile
from tazza.observers.recorder import Recorder
from tazza.observers.timeline import SpanKind
from tazza.observers.trace import write_trace
from tazza.operator import Operator, make_argument, operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.threads import at_most_threads
from tazza.tensor import Tensor
from tazza.workspace import Workspace

BUFFERS = 2
COPIES, COMPUTE, BOTH = "copies alone", "compute alone", "both"
AIM = 1.10
"""Of the time of both over the longer one."""


@dataclass(frozen=True, slots=True)
class Size:
    """Products (rows, depth) x (depth, columns), so many of them, and the least size of a block."""

    stages: int
    rows: int
    depth: int
    columns: int
    block_bytes_min: int

    @property
    def flops(self) -> int:
        """Of one product."""
        return 2 * self.rows * self.depth * self.columns


FULL, QUICK = Size(40, 640, 1024, 960, 4 << 20), Size(4, 64, 128, 96, 1 << 18)


class Stages:
    """The blocks, buffers and weights of all stages, and the nets that run them."""

    def __init__(self, size: Size) -> None:
        """Make them, and find out how large a block is that takes as long as a product."""
        self.size = size
        self._workspace = workspace = Workspace()
        random = np.random.default_rng(0)
        workspace.feed("w", random.standard_normal((size.columns, size.depth), np.float32))
        workspace.feed("b", np.zeros(size.columns, np.float32))
        self._place("x0", _ones(size.block_bytes_min).view((size.rows, size.depth)))
        product = Operator(self._product(0), workspace)
        with at_most_threads(1):
            product_s = _least_s(lambda: product.run(CPUContext()))
        product.close()
        one, two = _ones(8 * size.block_bytes_min), _ones(8 * size.block_bytes_min)
        copy_s = _least_s(lambda: CPUContext().copy(one, two))
        fitting = int(8 * size.block_bytes_min * product_s / copy_s)
        self.block = _ones(max(size.block_bytes_min, fitting))
        self._place("block", self.block)
        for number in range(BUFFERS):
            buffer = _ones(self.block.nbytes)
            self._place(f"buffer{number}", buffer)
            self._place(f"x{number}", buffer.view((size.rows, size.depth)))
        self._nets = {
            (copies, compute): self._net(copies, compute)
            for copies, compute in ((True, True), (True, False), (False, True))
        }

    def _place(self, name: str, tensor: Tensor) -> None:
        self._workspace.create_blob(name).set(tensor)

    def _copy(self, stage: int) -> OperatorDef:
        """Return a copy that comes behind the one before, as on one way from memory."""
        made = operator_def("Copy", ["block"], [f"buffer{stage % BUFFERS}"])
        made.control_input.append(f"buffer{(stage + 1) % BUFFERS}")
        return made

    def _product(self, stage: int) -> OperatorDef:
        """Return a product into the same blob as all others, which so come one behind the other."""
        return operator_def("FC", [f"x{stage % BUFFERS}", "w", "b"], ["y"])

    def _net(self, copies: bool, compute: bool) -> NetBase:
        kinds = [kind for kind, wanted in ((self._copy, copies), (self._product, compute)) if wanted]
        ops = [kind(stage) for stage in range(self.size.stages) for kind in kinds]
        net = NetDef(
            name=f"stages{len(kinds)}{kinds[0].__name__}", type="async_scheduling", num_workers=len(kinds), op=ops
        )
        net.arg.append(make_argument("threads_per_operator", 1))
        return self._workspace.create_net(net)

    def run(self, *, copies: bool = True, compute: bool = True) -> float:
        """Run all stages, or what of them is asked for; return the seconds from the first to the last."""
        start_s = time.perf_counter()
        self._nets[copies, compute].run()
        return time.perf_counter() - start_s

    def observed(self) -> Profile:
        """Run all stages while somebody looks; positions are those of operators: copy, product, copy, ..."""
        with Recorder(self._nets[True, True]) as recorder:
            self._nets[True, True].run()
        return recorder.profile()


def _ones(nbytes: int) -> Tensor:
    return Tensor.from_numpy(np.ones(nbytes // 4, np.float32))


def _least_s(work: Callable[[], object], times: int = 7) -> float:
    """Return the least of several times; the first one prepares, and does not count."""
    found: list[float] = []
    for _ in range(times + 1):
        start_s = time.perf_counter()
        work()
        found.append(time.perf_counter() - start_s)
    return min(found[1:])


@dataclass(frozen=True, slots=True)
class Overlap:
    """Medians in s, the ratio of both to the longer one alone (median over the rounds), and what was run."""

    both_s: float
    copies_s: float
    compute_s: float
    ratio: float
    stages: Stages


def overlap(rounds: int, *, quick: bool = False) -> Overlap:
    """Measure all three in turns."""
    stages = Stages(QUICK if quick else FULL)
    found = in_turns(
        {
            COPIES: lambda seconds: stages.run(compute=False),
            COMPUTE: lambda seconds: stages.run(copies=False),
            BOTH: lambda seconds: stages.run(),
        },
        rounds,
        0.0,
    )
    longer = [max(pair) for pair in zip(found[COPIES], found[COMPUTE], strict=True)]
    medians = {name: statistics.median(times) for name, times in found.items()}
    return Overlap(medians[BOTH], medians[COPIES], medians[COMPUTE], ratio(found[BOTH], longer), stages)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nets.overlap", description="overlap copies and compute")
    parser.add_argument("--quick", action="store_true", help="small blocks: to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("out/bench-nets"), help="folder of the picture and the trace")
    given = parser.parse_args()
    found = overlap(given.rounds, quick=given.quick)
    timeline, size = found.stages.observed().timeline(), found.stages.size
    given.out.mkdir(parents=True, exist_ok=True)
    title = f"{size.stages} blocks of {found.stages.block.nbytes / 2**20:.0f} MiB beside products on one thread"
    timeline.draw(given.out / "overlap.png", title=title)
    write_trace(given.out / "overlap.json", timeline)
    print(title)
    print(timeline.text())
    print(f"copies alone {found.copies_s * 1e3:.0f} ms, compute alone {found.compute_s * 1e3:.0f} ms")
    print(f"both {found.both_s * 1e3:.0f} ms, {found.ratio:.3f} of the longer one (aim: at most {AIM:.2f})")
    print(f"drawn: {timeline.overlap_s(SpanKind.COPY, SpanKind.COMPUTE) * 1e3:.0f} ms of copies beside compute")


if __name__ == "__main__":
    main()
