"""`make judge`: random problems against the reference in float64, for minutes."""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import tests.judge
from tazza.runtime.log import logger
from tests.judge.dying_word import FILE, survived
from tests.judge.outcome import PARTS, Outcome, Request, Verdict
from tests.judge.peer import why_no_torch


def load_parts() -> None:
    """Import the modules of this package, so that every part is registered."""
    for module in pkgutil.iter_modules(tests.judge.__path__, f"{tests.judge.__name__}."):
        if not module.name.rsplit(".", 1)[1].startswith(("__", "test_")):
            importlib.import_module(module.name)


def judge(
    layers: Annotated[int, typer.Option(help="how many layers")] = 2000,
    chains: Annotated[int, typer.Option(help="how many chains")] = 1000,
    seed: Annotated[int, typer.Option(help="where the random numbers begin")] = 0,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16: what nets compute in")] = "float32",
    minutes: Annotated[float, typer.Option(help="stop after that time, 0: never")] = 0.0,
    only: Annotated[str, typer.Option(help="layers of this operator type only")] = "",
) -> None:
    """Judge random layers and chains of them on all engines; the exit status is 1 where one is wrong."""
    load_parts()
    logger.setLevel(logging.ERROR)  # every engine is asked for, the reasons why one is passed over are counted
    console = Console(width=None if sys.stdout.isatty() else 220)
    counts = {"layers": layers, "chains": chains}
    deadline = time.monotonic() + 60 * minutes if minutes > 0 else float("inf")
    tally: Counter[tuple[str, str]] = Counter()
    engines: Counter[tuple[str, str]] = Counter()
    wrong: list[Outcome] = []
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console) as progress:
        for name in sorted(PARTS, reverse=True):
            request = Request(counts.get(name, 0), seed, dtype, only)
            task = progress.add_task(name, total=request.count)
            for outcome in _until(deadline, PARTS[name](request)):
                tally[name, outcome.verdict.value] += 1
                engines[outcome.engine, outcome.verdict.value] += name == "layers"
                if outcome.verdict is Verdict.MISMATCH:
                    wrong.append(outcome)
                    console.print(f"{outcome.again} {outcome.engine} {outcome.net}: {outcome.text}", markup=False)
                progress.update(task, description=_told(name, tally), completed=_number(outcome, request))
    for name in sorted(PARTS, reverse=True):
        console.print(_told(name, tally))
    console.print(_engines(engines))
    reason = why_no_torch()
    if reason is not None:
        console.print(f"The reference kernels had no second judge: {reason}")
    if wrong:
        console.print(_table(wrong))
        raise typer.Exit(1)


def _until(deadline: float, outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    for outcome in outcomes:
        yield outcome
        if time.monotonic() > deadline:
            return


def _number(outcome: Outcome, request: Request) -> int:
    return min(outcome.number + 1, request.count)


def _told(name: str, tally: Counter[tuple[str, str]]) -> str:
    return f"{name}: " + ", ".join(f"{tally[name, verdict.value]} {verdict.value}" for verdict in Verdict)


def _engines(tally: Counter[tuple[str, str]]) -> Table:
    """Return how often each engine ran, refused or was wrong; `torch` judged the reference kernels."""
    table = Table("engine of layers", *(verdict.value for verdict in Verdict))
    for engine in sorted({engine for engine, _ in tally}):
        table.add_row(engine, *(str(tally[engine, verdict.value]) for verdict in Verdict))
    return table


def _table(wrong: list[Outcome]) -> Table:
    """Return the mismatches by type, engine and net, each with one that draws it again."""
    table = Table("operator", "engine", "net", "times", "again", "what")
    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in wrong:
        groups.setdefault((outcome.type, outcome.engine, outcome.net), []).append(outcome)
    for (type, engine, net), found in sorted(groups.items()):
        table.add_row(type, engine, net, str(len(found)), found[0].again, found[0].text)
    return table


if __name__ == "__main__":
    if FILE in os.environ:
        typer.run(judge)
    else:
        sys.exit(survived(["-m", "tests.judge", *sys.argv[1:]]))
