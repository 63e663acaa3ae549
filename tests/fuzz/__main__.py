"""`make fuzz`: fuzzes on several processes side by side, shows how far it is, and tells what it found."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from tests.fuzz.kinds import KINDS, REPLAY, stored_cases
from tests.fuzz.watch import Job, Tally, watch

CHUNK = 4000
"""Inputs of a job: between two of them `--minutes` is looked at, as it is between any two inputs."""
WITHOUT_END = 1 << 40


@dataclass
class Quest:
    """One kind: how many inputs are wanted, from which seed on, and what came out."""

    kind: str
    count: int
    first: int
    tally: Tally
    task: TaskID


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    nets: Annotated[int, typer.Option(help="nets: two thirds as messages, the others as bytes", min=0)] = 0,
    files: Annotated[int, typer.Option(help="files of all formats", min=0)] = 0,
    commands: Annotated[int, typer.Option(help="command lines", min=0)] = 0,
    minutes: Annotated[
        float | None, typer.Option(help="stop after this time; without numbers above, all kinds go on until then")
    ] = None,
    seed: Annotated[int, typer.Option(help="first seed of each kind", min=0)] = 0,
    workers: Annotated[int, typer.Option(help="processes side by side", min=1)] = 2,
    hang: Annotated[float, typer.Option(help="seconds after which an input counts as one that hangs")] = 20.0,
    out: Annotated[Path, typer.Option(help="folder for what is found")] = Path("out/fuzz"),
    again: Annotated[Path | None, typer.Option("--replay", help="try the inputs of a file or folder instead")] = None,
) -> None:
    """Fuzz tazza. Ends with status 1, a table and a file for each finding when an outcome was not right."""
    console = Console()
    if again is not None:
        tally = Tally()
        watch(Job(f"{REPLAY}{again.resolve()}", 0, len(stored_cases(again)), hang_s=hang), tally)
        tallies = {"replayed": tally}
    else:
        wanted = {"nets": nets - nets // 3, "bytes": nets // 3, "files": files, "commands": commands}
        if minutes is not None and not any(wanted.values()):
            wanted = dict.fromkeys(KINDS, WITHOUT_END)
        tallies = _fuzz({kind: count for kind, count in wanted.items() if count}, seed, workers, hang, minutes, console)
    found = {key: (finding, tally.times[key]) for tally in tallies.values() for key, finding in tally.found.items()}
    for kind, tally in tallies.items():
        rate = tally.tried / tally.seconds if tally.seconds else 0.0
        console.print(
            f"{kind}: {tally.tried:,} inputs, {rate:,.0f} a second and process, slowest {tally.slowest_s:.1f} s,"
            f" {len(tally.found)} findings"
        )
    if not found:
        return
    table = Table("times", "what", "where", "file", title="found", title_justify="left", box=None)
    for finding, times in sorted(found.values(), key=lambda each: -each[1]):
        table.add_row(str(times), finding.what, finding.where, str(finding.write(out)))
    console.print(table, markup=False)
    raise typer.Exit(1)


def _fuzz(
    wanted: dict[str, int], seed: int, workers: int, hang_s: float, minutes: float | None, console: Console
) -> dict[str, Tally]:
    """Try inputs of all kinds, the processes taking turns at the kinds."""
    end = None if minutes is None else time.monotonic() + 60 * minutes
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[found]} found"),
    )
    stopped = threading.Event()

    def stop() -> bool:
        return stopped.is_set() or (end is not None and time.monotonic() > end)

    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        quests = [
            Quest(
                kind,
                count,
                seed,
                Tally(),
                progress.add_task(kind, total=None if count == WITHOUT_END else count, found=0),
            )
            for kind, count in wanted.items()
        ]
        lock = threading.Lock()

        def work() -> None:
            try:
                while not stop():
                    with lock:
                        open_quests = [quest for quest in quests if quest.first < seed + quest.count]
                        if not open_quests:
                            return
                        quest = min(open_quests, key=lambda each: (each.first - seed) / each.count)
                        first = quest.first
                        quest.first = last = min(first + CHUNK, seed + quest.count)
                    own = Tally()
                    watch(Job(quest.kind, first, last, hang_s=hang_s), own, stop=stop)
                    with lock:
                        _add(quest.tally, own)
                        progress.update(quest.task, completed=quest.tally.tried, found=len(quest.tally.found))
            finally:
                stopped_by_error = not stop() and any(quest.first < seed + quest.count for quest in quests)
                if stopped_by_error:
                    stopped.set()

        threads = [threading.Thread(target=work) for _ in range(workers)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            stopped.set()
            for thread in threads:
                thread.join()
    return {quest.kind: quest.tally for quest in quests}


def _add(whole: Tally, part: Tally) -> None:
    whole.tried += part.tried
    whole.seconds += part.seconds
    whole.slowest_s = max(whole.slowest_s, part.slowest_s)
    for key, finding in part.found.items():
        whole.found.setdefault(key, finding)
        whole.times[key] = whole.times.get(key, 0) + part.times[key]


if __name__ == "__main__":
    app(prog_name="fuzz")
