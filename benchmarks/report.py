"""Tables for people, JSON for programs, a chart for both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.job import BFLOAT16, FLOAT32
from benchmarks.lineup import OWN
from benchmarks.machine import Machine
from benchmarks.result import Entry, Race, grouped, median_ratio, paired_ratio

MIB = 1 << 20


def shown(value: float | None, digits: int = 2) -> str:
    """Return a number as text, a dash for none.

    >>> shown(1.234), shown(None)
    ('1.23', '-')
    """
    return "-" if value is None else f"{value:.{digits}f}"


def milliseconds(seconds: float | None) -> str:
    """Return a time in ms with three digits that count.

    >>> milliseconds(0.0123456), milliseconds(1.5), milliseconds(2e-5)
    ('12.3', '1500', '0.0200')
    """
    if seconds is None:
        return "-"
    value = seconds * 1e3
    digits = next((count for count, least in ((0, 100), (1, 10), (2, 1), (3, 0.1)) if value >= least), 4)
    return f"{value:.{digits}f}"


def _mebibytes(count: int | None) -> str:
    return "-" if count is None else f"{count / MIB:.0f}"


def race_table(race: Race, machine: Machine) -> Table:
    """Return the table of one race."""
    limit = machine.gemm_gflops.get(race.work.precision, machine.gemm_gflops.get(FLOAT32))
    table = Table(title=_title(race), title_justify="left")
    columns = ("contender", "ms", "of best peer", "GFLOP/s", "of GEMM", "first result, s", "MiB over import", "MiB", "")
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position in (0, len(columns) - 1) else "right")
    best = race.best_peer()
    for entry in sorted(race.entries, key=lambda each: each.median_s if each.median_s is not None else float("inf")):
        table.add_row(*_row(race, entry, best, limit))
    return table


def _title(race: Race) -> str:
    aim = "" if race.work.at_most is None else f" (aim {race.work.at_most:.2f})"
    ratio = f"ratio to the best peer {shown(race.ratio, 3)}{aim}"
    return f"{race.work.name}: {ratio}, A/A {shown(race.control, 3)}"


def _row(race: Race, entry: Entry, best: Entry | None, limit: float | None) -> list[str]:
    rate = race.rate(entry)
    ratio = None if best is None else paired_ratio(entry, best)
    share = None if rate is None or not limit else 100 * rate / limit
    return [
        entry.contender,
        milliseconds(entry.median_s),
        shown(ratio, 3),
        shown(rate, 0),
        "-" if share is None else f"{share:.0f} %",
        shown(entry.first_result_s),
        _mebibytes(entry.memory_bytes("above_import_bytes")),
        _mebibytes(entry.memory_bytes("peak_bytes")),
        f"failed: {entry.failure}" if entry.failure else entry.note,
    ]


def summary_table(races: Sequence[Race]) -> Table:
    """Return the table of all works: tazza beside the best peer in time, start and memory."""
    table = Table(title="tazza and the best peer", title_justify="left")
    for position, column in enumerate(
        ("work", "tazza, ms", "best peer, ms", "", "ratio", "aim", "A/A", "MiB over import", "least of peers")
    ):
        table.add_column(column, justify="left" if position in (0, 3) else "right")
    for name, group in grouped(races).items():
        race = group[-1]
        best, own, ratio = race.best_peer(), race.entry(OWN), median_ratio(group)
        met = ratio is not None and race.work.at_most is not None and ratio <= race.work.at_most
        peaks = [entry.memory_bytes("above_import_bytes") for entry in race.entries if entry.peer]
        table.add_row(
            name,
            milliseconds(race.own_s),
            "-" if best is None else milliseconds(best.median_s),
            "" if best is None else best.contender,
            f"[green]{shown(ratio, 3)}[/]" if met else shown(ratio, 3),
            shown(race.work.at_most),
            shown(race.control, 3),
            "-" if own is None else _mebibytes(own.memory_bytes("above_import_bytes")),
            _mebibytes(min((peak for peak in peaks if peak is not None), default=None)),
        )
    return table


def machine_line(machine: Machine) -> str:
    """Return what the machine can do, in one line."""
    emulated = "" if machine.bfloat16 else " (which this processor only emulates)"
    single, half = machine.gemm_gflops.get(FLOAT32), machine.gemm_gflops.get(BFLOAT16)
    return (
        f"{machine.processor}, {machine.threads} threads: GEMM {shown(single, 0)} GFLOP/s in float32, "
        f"{shown(half, 0)} in bfloat16{emulated}; copy {machine.copy_gbytes:.1f} GB/s read and written"
    )


def write_json(path: Path, races: Sequence[Race], machine: Machine, settings: dict[str, Any]) -> None:
    """Write all figures."""
    data = {
        "machine": asdict(machine),
        "settings": settings,
        "ratios": {name: median_ratio(group) for name, group in grouped(races).items()},
        "races": [race.data() for race in races],
    }
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")


def write_chart(path: Path, races: Sequence[Race]) -> None:
    """Draw the time of each contender over that of the best peer, a group of bars for each work."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups = [group[-1] for group in grouped(races).values() if group[-1].best_peer() is not None]
    names = list(dict.fromkeys(entry.contender for race in groups for entry in race.entries))
    figure: Any = Figure(figsize=(9, 1.2 + 0.16 * max(1, len(groups)) * (len(names) + 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    height = 1 / (len(names) + 1)
    for position, name in enumerate(names):
        bars = [(row, _relative(race, name)) for row, race in enumerate(groups)]
        drawn = [(row + position * height, ratio) for row, ratio in bars if ratio is not None]
        axes.barh([y for y, _ in drawn], [ratio for _, ratio in drawn], height, label=name)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks([row + (len(names) - 1) * height / 2 for row in range(len(groups))])
    axes.set_yticklabels([race.work.name for race in groups])
    axes.set_xlim(0, 3)
    axes.invert_yaxis()
    axes.set_xlabel("time over that of the best peer (less is faster; bars end at 3)")
    if names:
        axes.legend(fontsize="small")
    figure.savefig(path)


def _relative(race: Race, name: str) -> float | None:
    entry, best = race.entry(name), race.best_peer()
    if entry is None or best is None or entry.median_s is None or not best.median_s:
        return None
    return entry.median_s / best.median_s


def print_race(console: Console, race: Race, machine: Machine) -> None:
    """Print the table of a race."""
    console.print(race_table(race, machine))
