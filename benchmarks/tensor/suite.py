"""What the tensor library is held against: each benchmark of this folder as lines with a ratio, and an aim.

python -m benchmarks.tensor.suite NAME FILE [--quick]    measures one benchmark, and writes its lines as JSON

A ratio says how many times as fast ours is as the other one; an aim, where there is one, what it should at least be.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison: `ours` and `theirs` in `unit`, which for rates (`.../s`) is better the larger."""

    case: str
    ours: float
    unit: str
    other: str
    theirs: float
    aim: float | None = None

    @property
    def ratio(self) -> float:
        """How many times as fast ours is.

        >>> Line("a", 2.0, "ms", "b", 3.0).ratio, Line("a", 2.0, "GFLOP/s", "b", 1.0).ratio
        (1.5, 2.0)
        """
        return self.ours / self.theirs if self.unit.endswith("/s") else self.theirs / self.ours

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        return None if self.aim is None else self.ratio >= self.aim


@dataclass(frozen=True, slots=True)
class Suite:
    """One benchmark: what gives its lines, quickly or not, and the modules of those it is held against."""

    name: str
    lines: Callable[[bool], Iterator[Line]]
    peers: tuple[str, ...]


SUITES: dict[str, Suite] = {}
"""By name; filled by `suite`."""


def suite(*peers: str) -> Callable[[Callable[[bool], Iterator[Line]]], Callable[[bool], Iterator[Line]]]:
    """Return a decorator that registers a function from `quick` to lines under its own name."""

    def register(function: Callable[[bool], Iterator[Line]]) -> Callable[[bool], Iterator[Line]]:
        SUITES[function.__name__] = Suite(function.__name__, function, peers)
        return function

    return register


@suite("torch", "numexpr")
def lazy(quick: bool) -> Iterator[Line]:
    """Pointwise expressions against memory itself and other libraries; contenders take turns."""
    from benchmarks.tensor import lazy as script

    rounds = 5 if quick else 25
    elements, parameters = (1 << 22, 1 << 22) if quick else (10_000_000, 25_000_000)
    races = {
        f"a*x + b*y - c, {elements:,} float32": script.stream_contestants(elements),
        f"Adam, {parameters:,} parameters": script.adam_contestants(parameters),
    }
    for case, contestants in races.items():
        found = script.medians_ms(contestants, rounds)
        for other, theirs in found.items():
            if not other.startswith("tazza"):
                aim = 0.9 if other.startswith("stream") else None if other.endswith("foreach") else 1.0
                yield Line(case, found["tazza lazy"], "ms", other, theirs, aim)


@suite("scipy")
def sparse(quick: bool) -> Iterator[Line]:
    """Products of CSR and dense matrices against SciPy's; both take turns."""
    from benchmarks.tensor import sparse as script

    rng = np.random.default_rng(0)
    size, runs, seconds = (1024, 5, 0.0) if quick else (2048, 15, 0.3)
    for density in script.DENSITIES:
        ours, theirs = script.matrices(size, density, rng)
        for vectors in script.VECTORS:
            dense = rng.standard_normal((size, vectors), np.float32)
            for name, calls in script.products(ours, theirs, dense).items():
                mine, other = script.medians_s(calls, runs, seconds)
                case = f"{name}, {size} x {size}, {density:.0%}, {vectors} vectors"
                yield Line(case, 1e3 * mine, "ms", "scipy", 1e3 * other, 1.0 if name == "S @ D" else None)


@suite()
def low_precision(quick: bool) -> Iterator[Line]:
    """Products of integers of few bits against the faster float32; all take turns."""
    from benchmarks.tensor import low_precision as script

    size, runs = (256, 5) if quick else (1024, 15)
    generator = np.random.default_rng(0)
    floats = script.float_calls(size, size, generator)
    found = script.medians_ms(floats | script.integer_calls(size, size, generator), runs)
    best = min(floats, key=lambda name: found[name])
    for name, ms in found.items():
        if name not in floats:
            yield Line(f"{name}, {size}^3", ms, "ms", best, found[best])


@suite("torch")
def products(quick: bool) -> Iterator[Line]:
    """Products of matrices against NumPy and PyTorch; one after the other, as their waiting threads disturb others."""
    from benchmarks.tensor import products as script

    size, runs = (512, 3) if quick else (1024, 9)
    for dtype in script.TYPES:
        found = script.seconds(script.products(size, dtype), runs)
        for other, took in found.items():
            if not other.startswith("tazza"):
                rates = (2e-9 * size**3 / one for one in (found["tazza"], took))
                yield Line(f"gemm, {dtype.label}, {size}^3", next(rates), "GFLOP/s", other, next(rates))


@suite()
def allocators(quick: bool) -> Iterator[Line]:
    """Spans a second of each allocator, with locking and statistics on, against malloc, which has neither."""
    from benchmarks.tensor import allocators as script
    from tazza.tensor import ALLOCATORS

    found = script.measure(0.05 if quick else 0.3)
    malloc = next(name for name in found if name.startswith("malloc"))
    for name in (name for name in found if name in ALLOCATORS):
        for pattern, rate in found[name].items():
            yield Line(f"{name}, {pattern}", rate, "spans/s", malloc, found[malloc][pattern])


def write_lines(name: str, path: Path, *, quick: bool) -> None:
    """Measure one benchmark here, and write its lines."""
    from tazza.runtime.threads import thread_count

    lines = [asdict(line) for line in SUITES[name].lines(quick)]
    path.write_text(json.dumps({"threads": thread_count(), "lines": lines}), encoding="utf-8")


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description="measure one benchmark of the tensor library")
    parser.add_argument("name", choices=sorted(SUITES))
    parser.add_argument("path", type=Path, help="where to write the lines")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, few rounds")
    given = parser.parse_args()
    write_lines(given.name, given.path, quick=given.quick)


if __name__ == "__main__":
    main()
