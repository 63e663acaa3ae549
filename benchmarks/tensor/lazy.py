"""Time lazy expressions: `a*x + b*y - c` over float32, and an Adam update, against memory itself and other libraries.

The stream kernel is what memory allows: it reads three arrays, adds them and writes one, by the same stores and on
the same threads. Contestants take turns, so that a slow moment of the machine meets all; figures are medians. Libraries
that are not installed (numexpr, torch) are left out. Each library works into an array that exists; "new result" also
pays for fresh memory.

    python -m benchmarks.tensor.lazy [--elements 10000000] [--parameters 25000000] [--rounds 15]
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tazza.array.deferred import Lazy, apply, bind, lazy
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import compiled
from tazza.codegen.loop import count_loop, share
from tazza.codegen.term import Lines, Term
from tazza.engines.native.direct import AHEAD_BYTES, runner
from tazza.engines.native.lazy import STREAM_BYTES
from tazza.runtime.native_code import processor
from tazza.runtime.threads import thread_count
from tazza.tensor import CPUPlace, Tensor
from tazza.tensor.allocation import allocator_of, using_allocator

A, B = 2.5, 1.5
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
UNROLLED = 4
STREAM = Fields("threads steps", addresses="x y c out")

Contestants = dict[str, Callable[[], Any]]


def optional(name: str) -> Any:
    """Import a library; None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def medians_ms(contestants: Contestants, rounds: int) -> dict[str, float]:
    """Run contestants in turns; return the median time of each in ms. The first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds + 1):
        for name, call in contestants.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found[1:]) * 1e3 for name, found in times.items()}


def tensor(elements: int, seed: int) -> Tensor:
    """Return random positive numbers."""
    return Tensor.from_numpy(np.random.default_rng(seed).random(elements, np.float32))


def stream_kernel(sources: list[Tensor], target: Tensor) -> Callable[[], None]:
    """Return what writes the sum of three arrays by a loop of whole vectors; sizes are multiples of its step."""
    lanes = processor().vector_bytes // 4
    vector, step = f"<{lanes} x float>", lanes * UNROLLED
    streaming = target.nbytes >= STREAM_BYTES
    hint = ", !nontemporal !2" if streaming else ""

    def write(lines: Lines) -> None:
        w = STREAM.lazily(lines)
        begin, end = share(lines, w.steps)
        x, y, c, out = w.x, w.y, w.c, w.out

        def body(i: Term) -> None:
            for part in range(UNROLLED):
                *given, target = (pointer.at(i * step + part * lanes) for pointer in (x, y, c, out))
                for one in given:
                    one.prefetch(AHEAD_BYTES)
                first, second, third = (one.of(vector).load(4) for one in given)
                target.store_lanes(first + second + third, lanes * 4, None, hint)

        count_loop(lines, begin, end, body)

    address = compiled(f"benchmark stream {lanes} {UNROLLED} {streaming} {AHEAD_BYTES}", write)
    blobs = dict(zip(("x", "y", "c", "out"), (one.address for one in (*sources, target)), strict=True))
    words = STREAM.words(threads=thread_count(), steps=target.size // step, **blobs)
    return runner(address, words, (*sources, target))


def stream_contestants(elements: int) -> Contestants:
    """Return all that compute `a*x + b*y - c`, and the stream kernel."""
    x, y, c, out = (tensor(elements, seed) for seed in range(4))
    expression = A * lazy(x) + B * lazy(y) - lazy(c)
    X, Y, C, R = (one.array for one in (x, y, c, out))
    caching = allocator_of(CPUPlace(), "caching")

    def cached() -> Tensor:
        with using_allocator(caching):
            return expression.evaluate()

    found: Contestants = {
        "stream kernel (3 reads, 1 write)": stream_kernel([x, y, c], out),
        "tazza lazy": bind([expression], [out]).run,
        "tazza lazy, evaluate(out)": lambda: expression.evaluate(out),
        "tazza lazy, new result": expression.evaluate,
        "tazza lazy, new result, caching allocator": cached,
        "numpy": lambda: np.subtract(np.add(np.multiply(X, A, out=R), Y * B, out=R), C, out=R),
    }
    numexpr, torch = optional("numexpr"), optional("torch")
    if numexpr is not None:
        numexpr.set_num_threads(thread_count())
        values = {"a": np.float32(A), "b": np.float32(B), "x": X, "y": Y, "c": C}
        found["numexpr"] = lambda: numexpr.evaluate("a*x + b*y - c", values, out=R)
    if torch is not None:
        torch.set_num_threads(thread_count())
        tx, ty, tc, to = (torch.from_numpy(one) for one in (X, Y, C, R))
        found["torch"] = lambda: torch.mul(tx, A, out=to).add_(ty, alpha=B).sub_(tc)
    return found


def adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor, corrections: tuple[Tensor, Tensor]) -> list[Lazy]:
    """Return the new parameters and moments; the corrections are rate / (1 - b1^t) and 1 / sqrt(1 - b2^t)."""
    rate, root = corrections
    new_m = BETA1 * lazy(m) + (1 - BETA1) * lazy(g)
    new_v = BETA2 * lazy(v) + (1 - BETA2) * lazy(g) * g
    return [lazy(p) - lazy(rate) * new_m / (apply("sqrt", new_v) * root + EPSILON), new_m, new_v]


def adam_contestants(parameters: int) -> Contestants:
    """Return Adam updates of one array of parameters."""
    p, g, m, v = (tensor(parameters, seed) for seed in range(4))
    corrections = (Tensor.from_numpy(np.zeros((), np.float32)), Tensor.from_numpy(np.zeros((), np.float32)))
    step = bind(adam(p, g, m, v, corrections), [p, m, v])
    taken = 0

    def update() -> None:
        nonlocal taken
        taken += 1
        corrections[0].array[...] = RATE / (1 - BETA1**taken)
        corrections[1].array[...] = (1 - BETA2**taken) ** -0.5
        step.run()

    found: Contestants = {"tazza lazy": update}
    torch = optional("torch")
    if torch is not None:
        torch.set_num_threads(thread_count())
        weights = torch.rand(parameters).requires_grad_()
        weights.grad = torch.rand(parameters)
        options = {"lr": RATE, "betas": (BETA1, BETA2), "eps": EPSILON}
        found["torch, fused"] = torch.optim.Adam([weights], fused=True, **options).step
        found["torch, foreach"] = torch.optim.Adam([weights], foreach=True, **options).step
    return found


def show(title: str, found: dict[str, float], nbytes: int) -> None:
    """Print times, bandwidth, and the speed relative to the first."""
    print(title)
    first = next(iter(found.values()))
    for name, taken in found.items():
        print(f"{taken:9.2f} ms  {nbytes / taken / 1e6:7.1f} GB/s  {first / taken:6.1%}  {name}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time lazy expressions")
    parser.add_argument("--elements", type=int, default=10_000_000)
    parser.add_argument("--parameters", type=int, default=25_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    threads = f"{thread_count()} threads"
    found = medians_ms(stream_contestants(options.elements), options.rounds)
    show(f"a*x + b*y - c over {options.elements:,} float32, {threads}", found, 16 * options.elements)
    found = medians_ms(adam_contestants(options.parameters), options.rounds)
    show(f"Adam of {options.parameters:,} float32 parameters, {threads}", found, 28 * options.parameters)


if __name__ == "__main__":
    main()
