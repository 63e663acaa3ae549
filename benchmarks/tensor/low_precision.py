"""Print how long products of integers take, next to those of float32: `python -m benchmarks.tensor.low_precision`.

Square matrices, then a vector by a matrix. Integers of few bits lie as planes of bits; "packed" is the product on the
planes, "bytes" unpacks them and multiplies bytes, both with the time for that in it. All products of one size run in
turns, so that a slow moment of the machine meets all; the figures are medians. Rows of planes that a kernel reads are
made in the turn that is not counted, as for weights that stay the same. Every result is compared before that.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.array.linear_algebra import matmul
from tazza.array.quantized import QTensor, integer_matmul, quantize
from tazza.array.quantized.factor import Factor
from tazza.array.quantized.product import INTEGER_PRODUCTS, ProductTask
from tazza.runtime.threads import thread_count
from tazza.tensor import Tensor

BITS = ((1, 1), (1, 8), (2, 2), (3, 3), (4, 4), (8, 8))
WAYS = {"packed": "native", "bytes": "onednn"}
Call = Callable[[], Any]
Integers = npt.NDArray[np.int64]


def float_calls(rows: int, size: int, generator: np.random.Generator) -> dict[str, Call]:
    """Return name -> product of float32, the second factor transposed as weights are."""
    x, w = (generator.standard_normal((n, size), np.float32) for n in (rows, size))
    X, W = Tensor.from_numpy(x), Tensor.from_numpy(np.ascontiguousarray(w.T))
    return {"float32, tazza": lambda: matmul(X, W), "float32, NumPy": lambda: x @ w.T}


def integer_calls(rows: int, size: int, generator: np.random.Generator) -> dict[str, Call]:
    """Return name -> product of integers; each was made once, and found to be right."""
    calls: dict[str, Call] = {}

    def add(name: str, a: Any, b: Any, integers: tuple[Integers, Integers], engine: str) -> None:
        def call() -> Tensor:
            return integer_matmul(a, b, transpose_b=True, engine=engine)

        np.testing.assert_array_equal(np.asarray(call()), integers[0].astype(float) @ integers[1].T.astype(float))
        calls[name] = call

    for low in (0, -128):
        x, w = generator.integers(low, low + 256, (rows, size)), generator.integers(-128, 128, (size, size))
        a, b = x.astype(np.int8 if low else np.uint8), w.astype(np.int8)
        add(f"{'s8' if low else 'u8'} x s8", a, b, (x, w), WAYS["bytes"])
    for first, second in BITS:
        x, w = (generator.integers(0, 1 << bits, (n, size)) for bits, n in ((first, rows), (second, size)))
        a, b = (QTensor.of_integers(one, bits, signed=False) for one, bits in ((x, first), (w, second)))
        taken = INTEGER_PRODUCTS.choose(ProductTask(Factor(a), Factor(b))).engine
        for way, engine in WAYS.items():
            add(f"{first} x {second} bits, {way}{' (chosen)' * (engine == taken)}", a, b, (x, w), engine)
    return calls


def conversion_calls(size: int, generator: np.random.Generator) -> dict[str, Call]:
    """Return name -> quantization of a matrix to 4 bits and a sign, and back."""
    x = generator.standard_normal((size, size), np.float32)
    q = quantize(x, 4)
    return {"quantize, 4 bits": lambda: quantize(x, 4), "integers": q.integers, "dequantize": q.dequantize}


def medians_ms(calls: dict[str, Call], runs: int) -> dict[str, float]:
    """Return the median time of each call in milliseconds; they run in turns."""
    rows: list[list[float]] = []
    for _ in range(runs + 1):
        row: list[float] = []
        for call in calls.values():
            start = time.perf_counter()
            call()
            row.append((time.perf_counter() - start) * 1e3)
        rows.append(row)
    return dict(zip(calls, map(statistics.median, zip(*rows[1:], strict=True)), strict=True))


def report(title: str, found: dict[str, float], unit: float | None) -> None:
    """Print a table; with a unit (the time of float32) also how many times as fast each is."""
    print(f"\n{title}")
    for name, ms in found.items():
        print(f"{ms:10.3f} ms  {'' if unit is None else f'{unit / ms:6.2f} x'}  {name}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time products of few bits against float32")
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of the matrices (default: 1024)")
    parser.add_argument("--vector", type=int, default=4096, help="size of the matrix for one vector (default: 4096)")
    parser.add_argument("--runs", type=int, default=15, help="times that each product is made (default: 15)")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    print(f"threads: {thread_count()}; times are medians of {options.runs}, factors are against the faster float32")
    for rows, size in ((options.size, options.size), (1, options.vector)):
        floats = float_calls(rows, size, generator)
        found = medians_ms(floats | integer_calls(rows, size, generator), options.runs)
        report(f"{rows} x {size} by {size} x {size}", found, min(found[name] for name in floats))
    report(
        f"{options.size} x {options.size}", medians_ms(conversion_calls(options.size, generator), options.runs), None
    )


if __name__ == "__main__":
    main()
