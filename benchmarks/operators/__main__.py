"""Time every operator beside the same one of PyTorch eager, print the table by ratio, and keep the figures.

    python -m benchmarks.operators [WORDS] [--quick] [--cpu] [--threads 2] [--peers-python PYTHON] [--out out/bench-ops]

Words choose rows by parts of their names, or families. Each family has a process of its own; where PyTorch is missing,
only our times are told. With `--cpu` processor time is compared in place of clock time, on one thread each if no other
count is asked for: so a busy machine can be used.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.bench import installed
from benchmarks.machine import processor_fact
from benchmarks.operators.row import FAMILIES, load
from benchmarks.operators.suite import Line, line_of
from benchmarks.tensor.__main__ import ENVIRONMENT, ROOT, able
from tazza.runtime.files import atomic_write
from tazza.runtime.threads import thread_count


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.operators", description="time operators beside PyTorch's")
    made.add_argument("words", nargs="*", help="only families or rows with one of these in their names")
    made.add_argument("--quick", action="store_true", help="tiny sizes, few rounds: to see that it runs")
    made.add_argument("--cpu", action="store_true", help="compare processor time, for a busy machine")
    made.add_argument("--threads", type=int, help="of both (default: all, with --cpu 1)")
    made.add_argument("--peers-python", default=sys.executable, help="another Python, that has PyTorch")
    made.add_argument("--out", type=Path, default=Path("out/bench-ops"), help="folder of the results")
    return made


def measured(family: str, python: str, given: argparse.Namespace, threads: int) -> list[Line]:
    """Return the lines of a family, measured in a process of its own.

    Raises:
        CalledProcessError: it failed; what it said stands on the terminal.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.json"
        flags = [f"--{name}" for name in ("quick", "cpu") if getattr(given, name)]
        command = [python, "-m", "benchmarks.operators.suite", family, str(path), *given.words, *flags]
        subprocess.run(command, check=True, cwd=ROOT, env={**ENVIRONMENT, "OMP_NUM_THREADS": str(threads)})
        found = json.loads(path.read_text(encoding="utf-8"))
    return [line_of(line) for line in found["lines"]]


def by_ratio(lines: Sequence[Line]) -> list[Line]:
    """Return lines without a ratio first, then the slowest.

    >>> [line.ratio for line in by_ratio([Line("f", str(r), (), "", 1.0, ratio=r) for r in (0.5, None, 2.0)])]
    [None, 2.0, 0.5]
    """
    return sorted(lines, key=lambda line: float("inf") if line.ratio is None else line.ratio, reverse=True)


def text_of(lines: Sequence[Line]) -> str:
    """Return the table.

    >>> print(text_of([Line("math", "Log", ("Log",), "native", 1.0, 2e-4, 4e-4, 0.5, 1.01, 0.5)]))
    ratio  again  at most  ours ms  torch ms  copy  family  operator  engine
    0.500  1.010     1.00    0.200     0.400   50%  math    Log       native
    """
    rows = [("ratio", "again", "at most", "ours ms", "torch ms", "copy", "family", "operator", "engine")]
    rows += [_cells(line) for line in by_ratio(lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = 6
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place < right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _cells(line: Line) -> tuple[str, ...]:
    verdict = "  MISSED" if line.missed else "  close" if line.met is False else ""
    return (
        "" if line.ratio is None else f"{line.ratio:.3f}",
        f"{line.again:.3f}",
        f"{line.most:.2f}",
        f"{1e3 * line.ours_s:.3f}",
        "" if line.theirs_s is None else f"{1e3 * line.theirs_s:.3f}",
        "" if line.copy_share is None else f"{line.copy_share:.0%}",
        line.family,
        line.name,
        line.failure + verdict if line.failure else line.engine + verdict,
    )


def summary(lines: Sequence[Line]) -> str:
    """Return how many keep their bounds.

    >>> summary([Line("f", "a", ("Log", "Exp"), "", 1.0, ratio=0.5), Line("f", "b", ("Log",), "", 1.0, ratio=2.0)])
    '2 rows of 2 types: 1 met, 0 too close to tell, 1 missed, 0 without a peer'
    """
    types = {type for line in lines for type in line.types}
    met, missed = sum(line.met is True for line in lines), sum(line.missed for line in lines)
    alone = sum(line.met is None for line in lines)
    close = len(lines) - met - missed - alone
    return (
        f"{len(lines)} rows of {len(types)} types: {met} met, {close} too close to tell, {missed} missed, "
        f"{alone} without a peer"
    )


def chosen(words: Sequence[str]) -> Iterator[str]:
    """Yield the families that have rows with one of the words: those named, else all."""
    named = [name for name in FAMILIES if name in words]
    yield from named if len(named) == len(words) and named else FAMILIES


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    load()
    given = parser().parse_args(arguments)
    pythons = able([sys.executable, given.peers_python])
    python = max(pythons, key=lambda one: len(installed(one, ["torch"])))
    if not installed(python, ["torch"]):
        print("PyTorch is not installed: only our times are told")
    threads = given.threads if given.threads is not None else 1 if given.cpu else thread_count()
    lines: list[Line] = []
    failed: list[str] = []
    given.out.mkdir(parents=True, exist_ok=True)
    for name in chosen(given.words):
        print(f"{name} ...", flush=True)
        try:
            lines += measured(name, python, given, threads)
        except subprocess.CalledProcessError:
            failed.append(name)
            continue
        _keep(given, threads, lines)
    if not lines and not failed:
        parser().error(f"no row has {' or '.join(given.words)} in its name; families: {', '.join(FAMILIES)}")
    clock = "processor time" if given.cpu else "time"
    print(f"\n{text_of(lines)}\n\n{summary(lines)}\nmedians of {clock}, {threads} threads; figures: {given.out}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _keep(given: argparse.Namespace, threads: int, lines: Sequence[Line]) -> None:
    found = {
        "processor": processor_fact("model name"),
        "quick": given.quick,
        "clock": "process_time" if given.cpu else "perf_counter",
        "threads": threads,
        "lines": [asdict(line) | {"met": line.met, "missed": line.missed} for line in by_ratio(lines)],
    }
    with atomic_write(given.out / "operators.json") as file:
        file.write(f"{json.dumps(found, indent=1)}\n".encode())


if __name__ == "__main__":
    main()
