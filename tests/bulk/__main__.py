"""A million pictures through LeNet on two workers, twenty of which are killed, with what came of it.

python -m tests.bulk --pictures 1000000 --kills 20 --workers 2
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tazza.bulk.run import Order, predict_all
from tazza.bulk.source import record_parts
from tests.bulk.killed import Killer, check, job_of, write_lenet, write_pictures

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    pictures: Annotated[int, typer.Option(help="records of the LMDB", min=1)] = 1_000_000,
    kills: Annotated[int, typer.Option(help="workers that are killed", min=0)] = 20,
    workers: Annotated[int, typer.Option(help="processes that predict", min=1)] = 2,
) -> None:
    """Predict, kill, and see that nothing is lost and nothing comes twice."""
    console = Console()
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with TemporaryDirectory(prefix="bulk-") as name, Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        folder = Path(name)
        model, db, out = write_lenet(folder), folder / "pictures.lmdb", folder / "classes.jsonl"
        write_pictures(db, pictures)
        job = job_of(model, db)
        killer = Killer(pictures, kills)
        task = bar.add_task("pictures", total=pictures)

        def told(done: int) -> None:
            bar.update(task, completed=done)
            killer(done)

        began_s = time.monotonic()
        parts = record_parts("lmdb", db, job.batch_size)
        cut_s = time.monotonic() - began_s
        found = predict_all(job, parts, out, Order(workers, told=told, crew=killer.crew))
        took_s = time.monotonic() - began_s
        with out.open() as lines:
            check(lines, pictures, model)
    console.print(
        f"{found.images} pictures in {took_s:.0f} s, {found.images / took_s:.0f} a second; {len(parts)} parts, cut in"
        f" {cut_s:.1f} s; {killer.killed} workers were killed, {found.replaced} replaced: each record has one line"
    )


if __name__ == "__main__":
    app()
