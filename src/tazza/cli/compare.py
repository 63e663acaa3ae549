"""`tazza compare`: trainings side by side, as tables, for programs, or as a picture."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tazza.errors import ArgumentError
from tazza.runtime.csv_lines import csv_lines


def compare(
    runs: Annotated[list[Path], typer.Argument(help="folders of trainings: what `--out` of `tazza train` named")],
    picture: Annotated[
        Path | None, typer.Option(help="draw the curves of all of them (.png, .svg, .pdf). [default: none]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, for programs")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="print a table of text, a line for each training")] = False,
) -> None:
    """Compare trainings: settings that differ, best and last figures, time of a step, and all curves in one picture."""
    from tazza.cli.console import make_console, print_exactly, print_text
    from tazza.cli.recorded_training import read_training

    if as_json and as_csv:
        raise ArgumentError("--json and --csv are two ways to print the same", hint="pass one")
    found = [read_training(folder, name) for folder, name in zip(runs, names_of(runs), strict=True)]
    rows, different = summaries(found), differing({one.name: one.settings for one in found})
    console = make_console()
    if as_json:
        print_exactly(console, json.dumps({"trainings": rows, "differing": different}, indent=1))
    elif as_csv:
        print_exactly(console, csv_of(rows, different).rstrip())
    else:
        from tazza.cli.compare_tables import print_comparison

        print_comparison(console, rows, different)
    if picture is not None:
        from tazza.observers.comparison_picture import draw_comparison

        draw_comparison(picture, {one.name: {**one.steps, **one.tests} for one in found})
        if not (as_json or as_csv):
            print_text(console, f"picture: {picture}")


def names_of(folders: Sequence[Path]) -> list[str]:
    """Return a name for each folder: its last part, or as much of its end as tells it from the others.

    >>> names_of([Path("out/a/lenet"), Path("out/b/lenet"), Path("out/mlp")])
    ['a/lenet', 'b/lenet', 'mlp']

    Raises:
        ArgumentError: a folder is named twice.
    """
    parts = [folder.absolute().parts for folder in folders]
    twice = [folder for folder, count in Counter(parts).items() if count > 1]
    if twice:
        raise ArgumentError(f"'{Path(*twice[0])}' is named twice", hint="name each training once")
    names: list[str] = []
    for own in parts:
        length = next(
            length for length in range(1, len(own) + 1) if sum(each[-length:] == own[-length:] for each in parts) == 1
        )
        names.append("/".join(own[-length:]))
    return names


def differing(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings that are not the same for all, as run -> setting -> value; None is what follows from others.

    >>> differing({"a": {"seed": 1, "rate": 0.1}, "b": {"seed": 1, "rate": 0.2, "decay": 0.5}})
    {'a': {'rate': 0.1}, 'b': {'rate': 0.2, 'decay': 0.5}}
    """
    names = dict.fromkeys(name for each in settings.values() for name in each)
    unlike = [name for name in names if len({repr(each.get(name)) for each in settings.values()}) > 1]
    return {run: {name: each[name] for name in unlike if name in each} for run, each in settings.items()}


def summaries(found: Sequence[Any]) -> list[dict[str, Any]]:
    """Return what is compared of each `RecordedTraining`, as values of JSON."""
    rows: list[dict[str, Any]] = []
    for one in found:
        row: dict[str, Any] = {"name": one.name, "iterations": one.iterations, "loss": one.loss}
        row["seconds_per_step"] = one.seconds_per_step
        row["tested"] = {
            name: {"best": tested.best, "best_iteration": tested.best_step, "last": tested.last}
            for name in one.tests
            if (tested := one.tested(name)) is not None
        }
        row["figures"] = dict(one.figures)
        rows.append(row)
    return rows


def csv_of(rows: Sequence[Mapping[str, Any]], different: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of text: a line for each training, with a column for each figure and setting that differs."""
    flat: list[dict[str, Any]] = []
    for row in rows:
        line = {name: row[name] for name in ("name", "iterations", "loss", "seconds_per_step")}
        for test, values in row["tested"].items():
            line.update({f"{test} {what}": value for what, value in values.items()})
        line.update(row["figures"])
        line.update({f"setting {name}": value for name, value in different[row["name"]].items()})
        flat.append(line)
    columns = list(dict.fromkeys(name for line in flat for name in line))
    return "".join(csv_lines([columns, *([line.get(name) for name in columns] for line in flat)]))
