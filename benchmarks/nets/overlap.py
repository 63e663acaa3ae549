"""Copies of large blocks beside compute on one thread: how much longer both together take than the longer one alone.

    python -m benchmarks.nets.overlap [--quick] [--rounds 5] [--out out/bench-nets]

Stage i copies a block into one of two buffers, and multiplies what lies at its start by weights, as training does that
is fed from memory. So copy i + 1 runs beside product i, and copy i + 2 waits for product i, which reads its buffer. The
block is as large as takes a copy as long as a product takes. Alone, each kind does its share of all stages; together
there is one copy in the beginning, and one product in the end, that nothing overlaps with.

The last round of both is drawn (`overlap.png`), and written as a trace for Perfetto (`overlap.json`).
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
from tazza.device.context import Context, CPUContext
from tazza.device.copier import Copier
from tazza.device.scheduler import Scheduler
from tazza.observers.timeline import SpanKind, Timeline
from tazza.observers.trace import write_trace
from tazza.operator import LocalBlobs, Operator, operator_def
from tazza.runtime.threads import at_most_threads
from tazza.tensor import Tensor

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
    """The blocks, buffers and operators of all stages, and the ways of running them."""

    def __init__(self, size: Size) -> None:
        """Make them, and find out how large a block is that takes as long as a product."""
        self.size = size
        self.timeline = Timeline()
        random = np.random.default_rng(0)
        weights = random.standard_normal((size.columns, size.depth), np.float32)
        probe = self._tensors(1, size.block_bytes_min)[0]
        product = self._operator(probe, weights)
        with at_most_threads(1):
            product_s = _least_s(lambda: product.run(CPUContext()))
        block = self._tensors(2, 8 * size.block_bytes_min)
        copy_s = _least_s(lambda: CPUContext().copy(block[0], block[1]))
        fitting = int(8 * size.block_bytes_min * product_s / copy_s)
        self.block, *self.buffers = self._tensors(1 + BUFFERS, max(size.block_bytes_min, fitting))
        self.products = [self._operator(buffer, weights) for buffer in self.buffers]

    def _tensors(self, count: int, nbytes: int) -> list[Tensor]:
        return [Tensor.from_numpy(np.ones(nbytes // 4, np.float32)) for _ in range(count)]

    def _operator(self, buffer: Tensor, weights: np.ndarray) -> Operator:
        size, blobs = self.size, LocalBlobs()
        blobs.create_blob("x").set(buffer.view((size.rows, size.depth)))
        blobs.create_blob("w").set(Tensor.from_numpy(weights))
        blobs.create_blob("b").set(Tensor.from_numpy(np.zeros(size.columns, np.float32)))
        return Operator(operator_def("FC", ["x", "w", "b"], ["y"]), blobs)

    def run(self, *, copies: bool = True, compute: bool = True) -> float:
        """Run all stages, or what of them is asked for; return the seconds from the first to the last."""
        self.timeline.clear()
        scheduler = Scheduler(streams=1, threads=1, timeline=self.timeline)
        with Copier(scheduler) as copier:
            start_s = time.perf_counter()
            for stage in range(self.size.stages):
                buffer, product = self.buffers[stage % BUFFERS], self.products[stage % BUFFERS]
                if copies:
                    copier.copy(self.block, buffer, name=f"copy {stage}")
                if compute:
                    result = ("result", stage % BUFFERS)
                    scheduler.schedule(
                        _running(product), [buffer], [result], flops=self.size.flops, name=f"product {stage}"
                    )
            scheduler.join()
            return time.perf_counter() - start_s


def _running(product: Operator) -> Callable[[Context], None]:
    return lambda context: product.run(context)


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
    """Medians in s, the ratio of both to the longer one alone (median over the rounds), and what was drawn."""

    both_s: float
    copies_s: float
    compute_s: float
    ratio: float
    stages: Stages


def overlap(rounds: int, *, quick: bool = False) -> Overlap:
    """Measure all three in turns; the timeline of the stages is then one of both together."""
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
    stages.run()
    return Overlap(medians[BOTH], medians[COPIES], medians[COMPUTE], ratio(found[BOTH], longer), stages)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nets.overlap", description="overlap copies and compute")
    parser.add_argument("--quick", action="store_true", help="small blocks: to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("out/bench-nets"), help="folder of the picture and the trace")
    given = parser.parse_args()
    found = overlap(given.rounds, quick=given.quick)
    timeline, size = found.stages.timeline, found.stages.size
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
