"""Time tazza and whatever peers are installed on the same nets with the same numbers.

    python -m benchmarks.bench                                 everything
    python -m benchmarks.bench --quick                         in some minutes
    python -m benchmarks.bench resnet50-1 lenet                some works
    python -m benchmarks.bench mlp --contenders onnxruntime    and some contenders
    python -m benchmarks.bench --before ../old --contenders before    this tree beside another one

Every contender is a process of its own, which stands still while another one is timed. tazza runs twice: how much the
two differ is the noise. Figures and chart go to `out/bench`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.lineup import Contender, Work, chosen_contenders, chosen_works
from benchmarks.machine import Machine, measured_by
from benchmarks.race import ROOT, Settings, run_race
from benchmarks.report import machine_line, print_race, summary_table, write_chart, write_json
from benchmarks.result import Race
from tazza.runtime.threads import thread_count

FIND = "import sys; from importlib.util import find_spec; print(*(m for m in sys.argv[1:] if find_spec(m)))"


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    made = argparse.ArgumentParser(description="time tazza beside other runtimes")
    made.add_argument("works", nargs="*", help="works such as resnet50-16, or nets (default: all)")
    made.add_argument("--contenders", default="", help="peers by name, with commas between them (default: all)")
    made.add_argument("--quick", action="store_true", help="few works and rounds, and nothing that compiles for long")
    made.add_argument("--runs", type=int, default=1, help="races of each work, of which the median counts (default: 1)")
    made.add_argument("--rounds", type=int, help="least turns of each contender in a race (default: 5, quick 3)")
    made.add_argument("--race-s", type=float, help="seconds for which more turns are taken (default: 40, quick 0)")
    made.add_argument("--seconds", type=float, default=0.1, help="length of a turn (default: 0.1)")
    made.add_argument(
        "--starts",
        type=int,
        help="fresh processes for the first result, of those that start within 1.5 s (default: 3, quick 1)",
    )
    made.add_argument("--threads", type=int, help="threads of every contender (default: what tazza takes)")
    made.add_argument("--peers-python", default=sys.executable, help="Python that has the peers (default: this one)")
    made.add_argument("--before", default="", help="source tree of tazza that becomes a peer called 'before'")
    made.add_argument("--net-type", default="plan", help="net type of tazza (default: plan)")
    made.add_argument("--flags", default="", help="flags of tazza, such as '--fpmath=bf16'")
    made.add_argument("--no-control", action="store_true", help="run tazza once only")
    made.add_argument("--out", type=Path, default=Path("out/bench"), help="folder of the results")
    return made


def settings_of(given: argparse.Namespace) -> Settings:
    """Return the settings that a command line asks for."""
    quick = bool(given.quick)
    return Settings(
        out=Path(given.out).resolve(),
        peers_python=str(given.peers_python),
        threads=thread_count() if given.threads is None else int(given.threads),
        rounds=(3 if quick else 5) if given.rounds is None else int(given.rounds),
        race_s=(0.0 if quick else 40.0) if given.race_s is None else float(given.race_s),
        seconds=float(given.seconds),
        starts=(1 if quick else 3) if given.starts is None else int(given.starts),
        net_type=str(given.net_type),
        flags=tuple(str(given.flags).split()),
        control=not given.no_control,
    )


def installed(python: str, modules: Iterable[str]) -> set[str]:
    """Return which of some modules a Python has."""
    command = [python, "-c", FIND, *dict.fromkeys(modules)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.split())


def present(contenders: Sequence[Contender], python: str, console: Console) -> list[Contender]:
    """Return the contenders whose modules are installed, and tell which are not."""
    found = installed(python, [module for contender in contenders for module in contender.needs])
    for contender in contenders:
        missing = [module for module in contender.needs if module not in found]
        if missing:
            console.print(f"{contender.name} is left out: {', '.join(missing)} is not installed (extra 'peers')")
    return [contender for contender in contenders if found.issuperset(contender.needs)]


def run_all(
    works: Sequence[Work], contenders: Sequence[Contender], settings: Settings, runs: int, console: Console
) -> tuple[list[Race], Machine]:
    """Run every race, print its table, and keep the JSON up to date."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    races: list[Race] = []
    # Nothing is drawn while a contender runs: a thread that draws would take time from it.
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        task = progress.add_task("measuring the machine", total=len(works) * runs)
        progress.refresh()
        machine = measured_by([sys.executable, settings.peers_python], settings.threads, ROOT)
        progress.console.print(machine_line(machine))
        for _ in range(runs):
            for work in works:

                def report(text: str, name: str = work.name) -> None:
                    progress.update(task, description=f"{name}: {text}")
                    progress.refresh()

                races.append(run_race(work, contenders, settings, report))
                print_race(progress.console, races[-1], machine)
                write_json(settings.out / "bench.json", races, machine, plain(settings))
                progress.advance(task)
    return races, machine


def plain(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON takes them."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(settings).items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    given = parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160)
    settings = settings_of(given)
    try:
        works = chosen_works(given.works, quick=given.quick)
        names = [name.strip() for name in str(given.contenders).split(",") if name.strip()]
        contenders = chosen_contenders(names, quick=given.quick, before=str(given.before))
    except ValueError as error:
        parser().error(str(error))
    settings.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    races, _ = run_all(works, present(contenders, settings.peers_python, console), settings, int(given.runs), console)
    write_chart(settings.out / "bench.svg", races)
    console.print(summary_table(races))
    console.print(f"{time.monotonic() - began:.0f} s; figures and chart are in {settings.out}")


if __name__ == "__main__":
    main()
