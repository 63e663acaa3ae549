"""Print how long products of CSR and dense matrices take, next to SciPy's: `python -m benchmarks.tensor.sparse`.

Both multiply the same matrices in turns, float32 with int32 indices, so that a slow moment of the machine meets both;
the figures are medians, the rate counts two operations for each stored element and vector. Each product is made for
`--seconds`, as 15 products of 50 us are over before the clock of a processor has risen. Before anything is timed, both
results are compared.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tazza.array.sparse import CSR, sparse_matmul
from tazza.runtime.threads import thread_count

DENSITIES = (0.01, 0.1)
VECTORS = (1, 16, 64, 256)


def matrices(size: int, density: float, rng: np.random.Generator) -> tuple[CSR, Any]:
    """Return one random square matrix of ours and SciPy's, over the same memory."""
    sparse: Any = importlib.import_module("scipy.sparse")
    theirs = sparse.random_array((size, size), density=density, format="csr", dtype=np.float32, rng=rng)
    return CSR.from_scipy(theirs), theirs


def products(ours: CSR, theirs: Any, D: np.ndarray[Any, Any]) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return name -> how we and how SciPy multiply, for each form of product."""
    left = np.ascontiguousarray(D.T)
    return {
        "S @ D": (lambda: ours @ D, lambda: theirs @ D),
        "S.T @ D": (lambda: sparse_matmul(ours, D, transpose=True), lambda: theirs.T @ D),
        "D @ S": (lambda: left @ ours, lambda: left @ theirs),
    }


def medians_s(calls: tuple[Callable[[], Any], ...], runs: int, seconds: float) -> list[float]:
    """Return the median time of each call; they run in turns, `runs` times at the least, and for so many seconds."""
    rows: list[list[float]] = []
    end = time.perf_counter() + seconds
    while len(rows) <= runs or time.perf_counter() < end:
        row: list[float] = []
        for call in calls:
            start = time.perf_counter()
            call()
            row.append(time.perf_counter() - start)
        rows.append(row)
    return [statistics.median(column) for column in zip(*rows[1:], strict=True)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time sparse products against SciPy's")
    parser.add_argument("--size", type=int, default=2048, help="rows and columns of the sparse matrix (default: 2048)")
    parser.add_argument("--runs", type=int, default=15, help="least times of each product (default: 15)")
    parser.add_argument("--seconds", type=float, default=0.3, help="least time for each product (default: 0.3)")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print(f"{options.size} x {options.size}, float32, threads: {thread_count()}")
    print(f"{'product':8} {'density':>7} {'vectors':>7} {'tazza ms':>9} {'scipy ms':>9} {'times':>6} {'GFLOP/s':>8}")
    for density in DENSITIES:
        ours, theirs = matrices(options.size, density, rng)
        for vectors in VECTORS:
            D = rng.standard_normal((options.size, vectors), np.float32)
            for name, calls in products(ours, theirs, D).items():
                np.testing.assert_allclose(np.asarray(calls[0]()), calls[1](), rtol=1e-3, atol=1e-3)
                mine, other = medians_s(calls, options.runs, options.seconds)
                rate = 2e-9 * ours.nnz * vectors / mine
                figures = f"{mine * 1e3:9.3f} {other * 1e3:9.3f} {other / mine:6.2f} {rate:8.1f}"
                print(f"{name:8} {density:7.0%} {vectors:7} {figures}")


if __name__ == "__main__":
    main()
