"""Every operator comes back, whatever its arguments: it runs or is refused with a typed error, on every engine alike.

Problems have arguments at the edges of what is declared and of what integers hold, windows in which several are far
out together among them, and the gradients of what runs. They are run in a child process under a watchdog.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.operator import SCHEMAS, operator_def
from tests.check import engines_of, run
from tests.judge.draw import drawable

SECONDS = 30
"""For one run; the sum of all clipped windows is a matter of milliseconds."""
ALL = drawable()
WINDOWED = [type for type in ALL if "kernel" in SCHEMAS[type].args]
FEW = ["MaxPool1D", "AveragePool2D", "Im2Col", "LRN", "ResizeNearest", "ConstantFill"]
PARTS = 4


def run_child(types: list[str], seed: int, seeds: int) -> list[str]:
    """Return the lines of the child process; fail where it did not come to its end."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.judge.extreme", str(SECONDS), str(seed), str(seeds), *types]
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    tail = "\n".join([*lines[-1:], *done.stderr.splitlines()[-25:]])
    assert done.returncode == 0, f"the child ended with {done.returncode}; it was at\n{tail}"
    assert lines[-1] == "END", tail
    return lines[:-1]


def check(lines: list[str]) -> int:
    """Check the outcomes, and that they agree over engines; returns how many runs there were."""
    outcomes: dict[str, dict[str, str]] = {}
    for line, outcome in zip(lines[::2], lines[1::2], strict=True):
        problem, _, engine = line.removeprefix("RUN ").rpartition(" on ")
        assert not outcome.startswith("untyped"), f"{line}\n{outcome}"
        if problem:
            outcomes.setdefault(problem, {})[engine] = outcome
    for problem, by_engine in outcomes.items():
        ran = {outcome.startswith("ran on") for outcome in by_engine.values()}
        assert len(ran) == 1, f"{problem}: {by_engine}"
    return len(outcomes)


@pytest.mark.slow
def test_extreme_arguments_of_some_operators() -> None:
    assert check(run_child(FEW, 0, 1)) >= len(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_extreme_windows(part: int) -> None:
    types = WINDOWED[part::PARTS]
    assert check(run_child(types, 1, 1)) > 10 * len(types)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_extreme_arguments(part: int) -> None:
    types = [type for type in ALL if type not in WINDOWED][part::PARTS]
    assert check(run_child(types, 0, 1)) >= len(types)


def pooled_by_hand(X: Any, type: str, k: int, stride: int, head: int, out: int) -> Any:
    """Return the pooled image, window by window."""
    Y = np.zeros((*X.shape[:2], out, out))
    for row, column in itertools.product(range(out), range(out)):
        rows, columns = (slice(max(at * stride - head, 0), max(at * stride - head + k, 0)) for at in (row, column))
        part = X[:, :, rows, columns].astype(np.float64)
        Y[:, :, row, column] = part.max(axis=(2, 3)) if type == "MaxPool" else part.mean(axis=(2, 3))
    return Y


@pytest.mark.slow
@pytest.mark.parametrize("type", ["MaxPool", "AveragePool"])
def test_windows_larger_than_the_image(type: str) -> None:
    """What is clipped counts for nothing; the gradient hands each window's share to what it has of the image."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        n, k, stride = int(rng.integers(2, 7)), int(rng.integers(3, 40)), int(rng.integers(1, 9))
        pad = int(rng.integers((k - n + 1) // 2 if k > n else 0, k))
        out = (n + 2 * pad - k) // stride + 1
        starts = [p * stride - pad for p in range(out)]
        if any(start >= n or start + k <= 0 for start in starts):
            continue  # a window without image: minus infinity, and 0 / 0
        X = rng.permutation(3 * n * n).reshape(1, 3, n, n).astype(np.float32)
        arguments: dict[str, Any] = {"kernel": k, "stride": stride, "pad": pad}
        wanted = pooled_by_hand(X, type, k, stride, pad, out)
        dY = np.asarray(rng.standard_normal((1, 3, out, out)), np.float32)
        for engine in engines_of(type):
            (Y,), _ = run(operator_def(type, ["X"], ["Y"], **arguments), [X], engine, refusable=True)
            np.testing.assert_allclose(Y, wanted, rtol=1e-5)
        shares: list[Any] = []
        for engine in engines_of(f"{type}Gradient"):
            definition = operator_def(f"{type}Gradient", ["X", "Y", "dY"], ["dX"], **arguments)
            shares.append(run(definition, [X, wanted.astype(np.float32), dY], engine, refusable=True)[0][0])
        for dX in shares:
            np.testing.assert_allclose(dX, shares[-1], rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(np.sum(dX), np.sum(dY, dtype=np.float64), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["while True: pass", "import time; time.sleep(1e9)"])
def test_what_does_not_come_back_is_told(statement: str) -> None:
    """The watchdog itself."""
    code = f"import faulthandler\nfaulthandler.dump_traceback_later(0.2, exit=True)\n{statement}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Timeout" in done.stderr
