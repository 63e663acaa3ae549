"""Run all benchmarks of the tensor library, print their table, and keep the figures.

    python -m benchmarks.tensor [lazy sparse ...] [--quick] [--peers-python PYTHON] [--out out/bench-tensor]

Each benchmark has a process of its own, on that Python, this one or the peers', which has more of the libraries that it
is held against. Libraries that are missing are named, and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.bench import installed
from benchmarks.machine import processor_fact
from benchmarks.tensor.suite import SUITES, Line, Suite
from tazza.runtime.files import atomic_write

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
PROBE = """
import sys
try:
    import tazza.engines.onednn.library
    from tazza.device import current_context
    from tazza.tensor import CPUPlace, apply, ones
    current_context(CPUPlace())
    apply("exp", ones(100_000)).evaluate()
except Exception as error:
    while error.__context__ is not None:
        error = error.__context__
    sys.exit(str(error))
"""


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.tensor", description="time the tensor library")
    made.add_argument("names", nargs="*", help=f"which (default: all): {', '.join(SUITES)}")
    made.add_argument("--quick", action="store_true", help="smaller sizes, few rounds: to see that it runs")
    made.add_argument("--peers-python", default=sys.executable, help="another Python, that has the peers")
    made.add_argument("--out", type=Path, default=Path("out/bench-tensor"), help="folder of the results")
    return made


def able(pythons: Iterable[str]) -> list[str]:
    """Return the Pythons that have what tazza itself needs, and tell what the others lack."""
    found: list[str] = []
    for python in dict.fromkeys(pythons):
        done = subprocess.run([python, "-c", PROBE], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
        if done.returncode == 0:
            found.append(python)
        else:
            print(f"{python} cannot run tazza: {done.stderr.strip()}")
    return found


def python_for(suite: Suite, pythons: Iterable[str]) -> tuple[str, list[str]]:
    """Return the Python that has the most of a benchmark's peers, and the peers that it has not."""
    found = {python: installed(python, suite.peers) for python in pythons}
    best = max(found, key=lambda python: len(found[python]))
    return best, [peer for peer in suite.peers if peer not in found[best]]


def measured(suite: Suite, python: str, *, quick: bool) -> tuple[int, list[Line]]:
    """Return the threads and the lines of a benchmark, measured in a process of its own.

    Raises:
        CalledProcessError: it failed; what it said stands on the terminal.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.json"
        command = [python, "-m", "benchmarks.tensor.suite", suite.name, str(path), *(["--quick"] if quick else [])]
        subprocess.run(command, check=True, cwd=ROOT, env=ENVIRONMENT)
        found = json.loads(path.read_text(encoding="utf-8"))
    return int(found["threads"]), [Line(**line) for line in found["lines"]]


def text_of(lines: Sequence[Line]) -> str:
    """Return the table of one benchmark.

    >>> print(text_of([Line("a + b", 2.0, "ms", "numpy", 3.0, 1.0), Line("a", 4e6, "spans/s", "malloc", 8e6)]))
    a + b         2.000 ms         numpy          3.000   1.50 x   aim 1.00   met
    a         4,000,000 spans/s    malloc     8,000,000   0.50 x
    """
    wide, other = (max(len(text) for text in texts) for texts in zip(*((x.case, x.other) for x in lines), strict=True))
    rows: list[str] = []
    for line in lines:
        verdict = "" if line.aim is None else f"   aim {line.aim:.2f}   {'met' if line.met else 'MISSED'}"
        figures = f"{_figure(line.ours)} {line.unit:<10} {line.other:<{other}} {_figure(line.theirs)}"
        rows.append(f"{line.case:<{wide}} {figures} {line.ratio:6.2f} x{verdict}")
    return "\n".join(rows)


def _figure(value: float) -> str:
    return f"{value:13,.0f}" if value >= 1000 else f"{value:13.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    given = parser().parse_args(arguments)
    names: list[str] = given.names if given.names else list(SUITES)
    if unknown := [name for name in names if name not in SUITES]:
        parser().error(f"unknown: {', '.join(unknown)}; there are {', '.join(SUITES)}")
    pythons = able([sys.executable, given.peers_python])
    quick = bool(given.quick)
    found: dict[str, object] = {"processor": processor_fact("model name"), "quick": quick}
    failed: list[str] = []
    missed = 0
    given.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        python, missing = python_for(SUITES[name], pythons)
        print(f"\n{name}" + (f", without {', '.join(missing)}, which is not installed" if missing else ""), flush=True)
        try:
            threads, lines = measured(SUITES[name], python, quick=quick)
        except subprocess.CalledProcessError:
            failed.append(name)
            continue
        print(text_of(lines), flush=True)
        missed += sum(line.met is False for line in lines)
        rows = [asdict(line) | {"ratio": line.ratio, "met": line.met} for line in lines]
        found[name] = {"threads": threads, "missing": missing, "lines": rows}
        with atomic_write(given.out / "tensor.json") as file:
            file.write(f"{json.dumps(found, indent=1)}\n".encode())
    print(f"\naims missed: {missed}; figures: {given.out / 'tensor.json'}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
