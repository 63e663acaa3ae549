"""`make records`: carries records by the million through the pipeline, shows progress, and tells what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.records.pipeline import Sizes, Tally, run
from tests.records.source import MOST, write_sources

LOOK_S = 0.25
KEPT_MIB = 32.0
"""What memory may grow by from the middle third of a run to the last one."""
WHOLE = 2000
"""Records come in halves of whole batches."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class OutOfTime(Exception):
    """The run takes longer than it may."""


class Timed(Tally):
    """Counts until the time is up, at which it fails: that ends the pipeline."""

    until_s: float = float("inf")

    def __call__(self, inputs: object, outputs: object) -> None:
        """Count a batch."""
        if time.monotonic() > self.until_s:
            raise OutOfTime(f"{self.count} of {self.records} records in time")
        super().__call__(inputs, outputs)


def resident_mib() -> float:
    """Return the memory of this process that no file backs, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError("the system does not say how much memory a process has")


@contextmanager
def watched(tally: Tally, progress: Progress) -> Generator[list[tuple[int, float]]]:
    """Show how many records came, and note how much memory there was each time."""
    seen: list[tuple[int, float]] = []
    ended = threading.Event()
    task = progress.add_task("records", total=tally.records)

    def watch() -> None:
        while not ended.wait(LOOK_S):
            seen.append((tally.count, resident_mib()))
            progress.update(task, completed=tally.count)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
        progress.update(task, completed=tally.count)


def peaks_mib(seen: list[tuple[int, float]], records: int) -> list[float]:
    """Return the most memory in each third of the records."""
    thirds = [
        [mib for count, mib in seen if third * records <= 3 * count < (third + 1) * records] for third in range(3)
    ]
    return [max(each, default=0.0) for each in thirds]


@app.command()
def main(
    records: Annotated[int, typer.Option(help="how many", min=WHOLE, max=MOST)] = 10_000_000,
    minutes: Annotated[float, typer.Option(help="stop after this time, which is a failure")] = 30.0,
) -> None:
    """Carry records through readers, queues and stages on threads; each has to come once, and whole."""
    records -= records % WHOLE
    console = Console()
    tally = Timed(records)
    with TemporaryDirectory() as name:
        began_s = time.monotonic()
        with console.status(f"writing {records} records"):
            write_sources(Path(name), records)
        written_s = time.monotonic()
        tally.until_s = began_s + 60 * minutes
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, TimeRemainingColumn(), console=console) as progress, watched(tally, progress) as seen:
            run(Path(name), Sizes(records), tally)
        took_s = time.monotonic() - written_s
    first, middle, last = peaks_mib(seen, records)
    console.print(
        f"{tally.count} records in {took_s:.1f} s: {tally.count / took_s:.0f} a second "
        f"(written in {written_s - began_s:.1f} s); none lost, none twice, none torn, checksum {tally.checksum:016x}; "
        f"most memory in each third {first:.0f}, {middle:.0f}, {last:.0f} MiB",
        soft_wrap=True,
    )
    if middle and last > middle + KEPT_MIB:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
