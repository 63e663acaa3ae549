"""Print the rates of products of matrices, next to NumPy's and PyTorch's: `python -m benchmarks.tensor.products`.

Contenders multiply the same matrices, one contender after the other with a pause between: each brings threads that wait
busily for a while after a call, and would take the processors from the next. The figures are medians.
A second table has what one call costs when there is next to nothing to compute, and what `run_op` saves by keeping what
it prepared. PyTorch is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tazza.array as ta
from tazza.operator import run_op
from tazza.runtime.threads import thread_count

TYPES = (ta.DataType.FLOAT, ta.DataType.DOUBLE, ta.DataType.BFLOAT16, ta.DataType.FLOAT16, ta.DataType.INT32)
NARROW = (ta.DataType.BFLOAT16, ta.DataType.FLOAT16)
PAUSE_S = 0.3
Calls = dict[str, Callable[[], Any]]


def seconds(calls: Calls, runs: int, repeats: int = 1) -> dict[str, float]:
    """Return the median time of each call, made `repeats` times in each run."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for name, call in calls.items():
        time.sleep(PAUSE_S)
        for _ in range(runs + 1):  # the first of each prepares
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            times[name].append((time.perf_counter() - start) / repeats)
    return {name: statistics.median(row[1:]) for name, row in times.items()}


def products(size: int, dtype: ta.DataType) -> Calls:
    """Return how each contender computes C = A B^T of square matrices into memory that is there."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (size, size)).astype(dtype.numpy) for _ in "ab")
    c = np.empty((size, size), dtype.numpy)
    out = ta.asarray(c)
    calls: Calls = {
        "tazza": lambda: ta.gemm(a, b, transpose_b=True, out=out),
        "tazza, alpha and beta": lambda: ta.gemm(a, b, transpose_b=True, alpha=2, beta=3, out=out),
    }
    if dtype not in NARROW:  # NumPy takes seconds for those
        calls["numpy"] = lambda: np.matmul(a, b.T, out=c)
    if importlib.util.find_spec("torch") is not None:
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(thread_count())
        kind = getattr(torch, dtype.label)
        x, y = (torch.from_numpy(one.astype(np.float32)).to(kind) for one in (a, b))
        z = torch.empty((size, size), dtype=kind)
        calls["torch"] = lambda: torch.matmul(x, y.T, out=z)
    return calls


def small_calls() -> Calls:
    """Return calls that are all overhead."""
    a = np.ones((16, 16), np.float32)
    x, out = ta.asarray(a), ta.asarray(a.copy())
    X, W = np.ones((1, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)
    return {
        "a @ a of NumPy": lambda: a @ a,
        "x @ x": lambda: x @ x,
        "gemm(x, x, out=out)": lambda: ta.gemm(x, x, out=out),
        'ta.run_op("Relu", x)': lambda: ta.run_op("Relu", x),
        'tazza.run_op("Relu", a), anew': lambda: run_op("Relu", a),
        'ta.run_op("Conv", X, W, kernel=3)': lambda: ta.run_op("Conv", X, W, kernel=3),
        'tazza.run_op("Conv", X, W, kernel=3), anew': lambda: run_op("Conv", X, W, kernel=3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of the matrices")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each call")
    options = parser.parse_args()
    print(f"{options.size} x {options.size}, {thread_count()} threads; GFLOP/s (integers: operations)")
    for dtype in TYPES:
        found = seconds(products(options.size, dtype), options.runs)
        rates = (f"{name} {2e-9 * options.size**3 / took:.0f}" for name, took in found.items())
        print(f"  {dtype.label:9} {', '.join(rates)}")
    print("one call, in microseconds")
    for name, took in seconds(small_calls(), options.runs, 200).items():
        print(f"  {name:44} {1e6 * took:.1f}")


if __name__ == "__main__":
    main()
