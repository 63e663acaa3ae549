"""`make fuzz`: fuzzes on several processes side by side, shows how far it is, and tells what it found."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
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
        chosen = {kind: count for kind, count in wanted.items() if count}
        tallies = Campaign(chosen, seed, hang, minutes, out).run(workers, console)
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


COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
    TextColumn("{task.fields[found]} found"),
)


class Campaign:
    """Inputs of several kinds, which processes take turns at. Changing state: the quests, under `_lock`."""

    def __init__(self, wanted: dict[str, int], seed: int, hang_s: float, minutes: float | None, out: Path) -> None:
        self._wanted, self._seed, self._hang_s, self._out = wanted, seed, hang_s, out
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._quests: list[Quest] = []

    def run(self, workers: int, console: Console) -> dict[str, Tally]:
        """Try the inputs; returns what came out by kind."""
        with Progress(*COLUMNS, console=console, disable=not console.is_terminal) as progress:
            for kind, count in self._wanted.items():
                task = progress.add_task(kind, total=None if count == WITHOUT_END else count, found=0)
                self._quests.append(Quest(kind, count, self._seed, Tally(), task))
            with ThreadPoolExecutor(workers) as pool:
                done = [pool.submit(self._work, progress) for _ in range(workers)]
                try:
                    for each in done:
                        each.result()
                except KeyboardInterrupt:
                    console.print("interrupted")
                finally:
                    self._stopped.set()
        return {quest.kind: quest.tally for quest in self._quests}

    def _stop(self) -> bool:
        return self._stopped.is_set() or (self._end is not None and time.monotonic() > self._end)

    def _next_job(self) -> tuple[Quest, Job] | None:
        """Return inputs of the kind of which the smallest share has been tried."""
        with self._lock:
            left = [quest for quest in self._quests if quest.first < self._seed + quest.count]
            if not left:
                return None
            quest = min(left, key=lambda each: (each.first - self._seed) / each.count)
            first, quest.first = quest.first, min(quest.first + CHUNK, self._seed + quest.count)
            return quest, Job(quest.kind, first, quest.first, hang_s=self._hang_s)

    def _work(self, progress: Progress) -> None:
        while not self._stop() and (taken := self._next_job()) is not None:
            quest, job = taken
            own = Tally()
            watch(job, own, stop=self._stop, tell=lambda finding: finding.write(self._out))
            with self._lock:
                _add(quest.tally, own)
                progress.update(quest.task, completed=quest.tally.tried, found=len(quest.tally.found))


def _add(whole: Tally, part: Tally) -> None:
    whole.tried += part.tried
    whole.seconds += part.seconds
    whole.slowest_s = max(whole.slowest_s, part.slowest_s)
    for key, finding in part.found.items():
        whole.found.setdefault(key, finding)
        whole.times[key] = whole.times.get(key, 0) + part.times[key]


if __name__ == "__main__":
    app(prog_name="fuzz")
