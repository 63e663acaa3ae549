"""A child process that runs problems with extreme arguments, each under a watchdog.

    python -m tests.judge.extreme <seconds> <first seed> <seeds> <types...>

It writes a line `RUN <problem> on <engine>` before each run and one with its outcome after it. A run that does not come
back ends the process with a traceback, also where native code holds Python's lock; so does the next one that would
wait for a library's lock.
"""

from __future__ import annotations

import faulthandler
import resource
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tazza.errors import KernelError, TazzaError
from tazza.operator import LocalBlobs, Operator, make_argument
from tazza.proto import OperatorDef
from tazza.testing.value import tensor_of
from tests.check import engines_of
from tests.judge.draw import CannotDraw, Problem, draw, gradients
from tests.judge.hand import Array

MEMORY_BYTES = 1 << 30
"""Address space beyond what the process has at its start: who asks for more gets none."""
LARGEST_BYTES = 1 << 24
"""Outputs up to this size are differentiated."""
FAR = (100_001, 2**31 - 1, 2**31, 2**62)
WINDOWS: tuple[dict[str, int], ...] = (
    *({"kernel": k, **more} for k in FAR for more in ({"legacy_pad": 2}, {"legacy_pad": 2, "stride": k}, {})),
    *({"kernel": k, "pad": k // 2, **more} for k in FAR for more in ({}, {"stride": k}, {"legacy_pad": 3})),
    *({"kernel": k, "pad": k - 1, "stride": s} for k in FAR for s in (k, k // 3, 1)),
    *({"kernel": k, "pad": k - 1, "stride": k, "count_include_pad": 1} for k in FAR),
    *({"pad": n, "stride": s} for n in FAR for s in (n, n // 3)),
    *({"pad": n, "dilation": n} for n in FAR),
    *({"pad": n, "dilation": n // 2, "stride": n} for n in FAR),
)
"""Windows whose numbers are large together; alone most of them are refused."""
REPLACED = ("kernel", "pad", "stride", "dilation", "legacy_pad", "global_pooling")


def extremes(type: str, seed: int) -> Iterator[Problem]:
    """Yield the drawn problem, and where it has windows those, over the image of a plain one."""
    try:
        yield draw(type, seed, extreme=True)
        plain = draw(type, seed)
    except CannotDraw:
        return
    if "kernel" in plain.schema.args:
        yield from (with_arguments(plain, window) for window in WINDOWS)


def with_arguments(problem: Problem, window: Mapping[str, int]) -> Problem:
    """Return a problem with other windows; the kernel of one with weights stays, since W has its size."""
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    weights = "W" in problem.inputs
    kept = [a for a in definition.arg if not a.name.startswith(REPLACED) or (weights and a.name.startswith("kernel"))]
    known = {name: value for name, value in window.items() if name in problem.schema.args}
    if weights:
        known.pop("kernel", None)
    del definition.arg[:]
    definition.arg.extend([*kept, *(make_argument(name, value) for name, value in known.items())])
    return replace(problem, definition=definition)


def attempt(problem: Problem, engine: str) -> tuple[str, dict[str, Array]]:
    """Run a problem; returns `ran on ...`, `refused: ...` or `untyped: ...`, and the outputs."""
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    definition.engine = engine
    blobs = LocalBlobs()
    for name in problem.inputs:
        blobs.create_blob(name).set(tensor_of(problem.value(name)))
    try:
        with np.errstate(all="ignore"):
            operator = Operator(definition, blobs)
            operator.run()
            taken = next(choice.engine for choice in operator.choices if choice.reason is None)
            results = {name: np.asarray(blobs.blobs[name].tensor().plain()) for name in definition.output}
            operator.close()
    except TazzaError as error:
        first = str(error).splitlines()[0]
        stray = isinstance(error, KernelError) and error.__cause__ is not None
        return (f"untyped: {first}" if stray else f"refused: {type(error).__name__}: {first}"), {}
    except Exception as error:
        return f"untyped: {type(error).__name__}: {error}", {}
    return f"ran on {taken}", results


def told(problem: Problem) -> str:
    """Return a problem in one line."""
    words: list[Any] = [f"{a.name}={str(a).split(chr(10), 1)[-1].split(chr(10))[0]}" for a in problem.definition.arg]
    return f"{problem} {problem.type}({', '.join(words)})"


def run_watched(problem: Problem, seconds: float) -> dict[str, Array]:
    """Run a problem on all engines, each time under the watchdog; returns the outputs of the reference."""
    found: dict[str, Array] = {}
    for engine in engines_of(problem.type):
        print(f"RUN {told(problem)} on {engine}", flush=True)
        faulthandler.dump_traceback_later(seconds, exit=True)
        outcome, results = attempt(problem, engine)
        faulthandler.cancel_dump_traceback_later()
        print(outcome, flush=True)
        found = results if outcome == "ran on reference" else found
    return found


def main(seconds: float, seeds: range, types: list[str]) -> None:
    """Run the problems of these types, and those of their gradients where the outputs are small."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for type in types:
        for seed in seeds:
            for problem in extremes(type, seed):
                results = run_watched(problem, seconds)
                if not results or sum(one.nbytes for one in results.values()) > LARGEST_BYTES:
                    continue
                print(f"RUN {told(problem)} for its gradient", flush=True)
                faulthandler.dump_traceback_later(seconds, exit=True)
                try:
                    with np.errstate(all="ignore"):
                        backward = gradients(problem, results)
                except (TazzaError, CannotDraw):
                    backward = []
                print("refused or drawn", flush=True)
                for one in backward:
                    run_watched(one, seconds)
    print("END", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])), sys.argv[4:])
