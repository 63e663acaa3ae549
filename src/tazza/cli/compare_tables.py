"""The tables of `tazza compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tazza.cli.recorded_training import better_of
from tazza.runtime.files import one_line

Row = Mapping[str, Any]


def print_comparison(console: Console, rows: Sequence[Row], different: Mapping[str, Row]) -> None:
    """Print figures of each training, the best of each column in bold, and the settings that differ."""
    for name in dict.fromkeys(name for row in rows for name in row["tested"]):
        _print_tests(console, name, [row for row in rows if name in row["tested"]])
    untested = [row for row in rows if not row["tested"]]
    if untested:
        _print_tests(console, "", untested)
    settings = {run: _told(values) for run, values in different.items()}
    if any(settings.values()):
        table = _table("training", "settings that differ")
        for run, text in settings.items():
            table.add_row(escape(run), escape(text))
        console.print()
        console.print(table)


def _print_tests(console: Console, name: str, rows: Sequence[Row]) -> None:
    """Print the trainings that were tested by one figure; without a name, those that were not tested."""
    timed = any(row["seconds_per_step"] is not None for row in rows)
    better = better_of(name)
    titles = ["steps", "loss", *(["best", "at step"] if better is not None else []), *(["last"] if name else [])]
    table = _table("training", *titles, *(["ms/step"] if timed else []))
    best = None if better is None else better(row["tested"][name]["best"] for row in rows)
    for row in rows:
        cells = [row["name"], f"{row['iterations']}", f"{row['loss']:.5g}"]
        tested = row["tested"].get(name)
        if better is not None:
            cells += [f"{tested['best']:.5g}", f"{tested['best_iteration']}"]
        if tested is not None:
            cells.append(f"{tested['last']:.5g}")
        if timed:
            seconds = row["seconds_per_step"]
            cells.append("" if seconds is None else f"{1e3 * seconds:.3g}")
        table.add_row(
            *map(escape, cells),
            style="bold" if tested is not None and best is not None and tested["best"] == best else None,
        )
    if name:
        console.print(f"tested: {name.replace('_', ' ')}", highlight=False, markup=False)
    console.print(table)


def _table(*titles: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, title in enumerate(titles):
        text = place == 0 or title.startswith("settings")
        table.add_column(title, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    return table


def _told(values: Row) -> str:
    return ", ".join(f"{name.replace('_', '-')} {_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    return "default" if value is None else f"{value:g}" if isinstance(value, float) else one_line(value)
