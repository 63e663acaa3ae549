"""Run all benchmarks of nets, print their table, and keep the figures.

    python -m benchmarks.nets [overhead branches ...] [--quick] [--peers-python PYTHON] [--out out/bench-nets]

Each benchmark has a process of its own, on that Python, this one or the peers', which has more of the libraries that it
is held against. Libraries that are missing are named, and left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.bench import installed
from benchmarks.machine import processor_fact
from benchmarks.nets.suite import SUITES, Line, Suite
from benchmarks.tensor.__main__ import ENVIRONMENT, ROOT, able
from tazza.runtime.files import atomic_write


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.nets", description="time how nets are run")
    made.add_argument("names", nargs="*", help=f"which (default: all): {', '.join(SUITES)}")
    made.add_argument("--quick", action="store_true", help="small nets, few rounds: to see that it runs")
    made.add_argument("--peers-python", default=sys.executable, help="another Python, that has the peers")
    made.add_argument("--out", type=Path, default=Path("out/bench-nets"), help="folder of the results")
    return made


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
        command = [python, "-m", "benchmarks.nets.suite", suite.name, str(path), *(["--quick"] if quick else [])]
        subprocess.run(command, check=True, cwd=ROOT, env=ENVIRONMENT)
        found = json.loads(path.read_text(encoding="utf-8"))
    return int(found["threads"]), [Line.of(line) for line in found["lines"]]


def text_of(lines: Sequence[Line]) -> str:
    """Return the table of one benchmark.

    >>> from benchmarks.nets.suite import Aim
    >>> one = Line("chain, simple", 0.35, "us/op", "torch", 1.4, 0.25, Aim("ours", most=3.0))
    >>> print(text_of([one, Line("chain, dag", 20.0, "us/op", aim=Aim("ours", most=15.0))]))
    chain, simple      0.350 us/op    0.250 x torch      1.400   ours <= 3.00    met
    chain, dag        20.000 us/op                               ours <= 15.00   MISSED
    """
    wide, unit, other, aim = (
        max(map(len, texts))
        for texts in zip(*((x.case, x.unit, x.other, "" if x.aim is None else str(x.aim)) for x in lines), strict=True)
    )
    rows: list[str] = []
    for line in lines:
        beside = ""
        if line.ratio is not None and line.theirs is not None:
            beside = f"{line.ratio:8.3f} x {line.other:<{other}} {line.theirs:10.3f}"
        verdict = "" if line.aim is None else f"{line.aim!s:<{aim}}   {'met' if line.met else 'MISSED'}"
        row = f"{line.case:<{wide}} {line.ours:10.3f} {line.unit:<{unit}} {beside:<{other + 22}}   {verdict}"
        rows.append(row.rstrip())
    return "\n".join(rows)


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
        found[name] = {
            "threads": threads,
            "missing": missing,
            "lines": [asdict(line) | {"met": line.met} for line in lines],
        }
        with atomic_write(given.out / "nets.json") as file:
            file.write(f"{json.dumps(found, indent=1)}\n".encode())
    print(f"\naims missed: {missed}; figures: {given.out / 'nets.json'}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
