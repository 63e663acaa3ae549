"""Programs of rows on a CUDA device, over many lengths, beside PyTorch's: python -m benchmarks.gpu_rows.

As `benchmarks.gpu`; what there is to read and write decides. Every blob has 2^26 elements, or as many as fit.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.gpu import Row, show_rows

N = 1 << 26
LENGTHS = (3, 10, 100, 1000, 1024, 4096, 10_000, 30_000, 100_000)
COLUMNS = (7, 64, 1000, 4096)
BATCHES = (256, 4096)


def rows() -> list[Row]:
    """Return what is timed."""
    found = list[Row]()
    for n in LENGTHS:
        shapes, nbytes = ((N // n, n),), 4 * (N // n) * n
        found.append(Row(f"Softmax of {n}", "Softmax", shapes, lambda torch, x: torch.softmax(*x, 1), 2 * nbytes))
        found.append(Row(f"ReduceBackSum of {n}", "ReduceBackSum", shapes, lambda torch, x: x[0].sum(1), nbytes))
    for n in COLUMNS:
        shapes, nbytes = ((N // n, n),), 4 * (N // n) * n
        found.append(
            Row(f"ReduceFrontSum, {n} columns", "ReduceFrontSum", shapes, lambda torch, x: x[0].sum(0), nbytes)
        )
    for n in BATCHES:
        name, nbytes = f"ReduceFrontSum of {n} x 1024", 4 * n * 1024
        found.append(Row(name, "ReduceFrontSum", ((n, 1024),), lambda torch, x: x[0].sum(0), nbytes))
    found.append(Row("SumElements", "SumElements", ((N,),), lambda torch, x: x[0].sum(), 4 * N))
    return found


def main() -> None:
    """Print the table."""
    numbers = np.random.default_rng(0).standard_normal(N, np.float32)
    show_rows(rows(), lambda shape: numbers[: math.prod(shape)].reshape(shape))


if __name__ == "__main__":
    main()
