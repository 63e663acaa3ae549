"""The curves of several trainings in one picture. Needs matplotlib, imported on use."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from tazza.errors import ArgumentError
from tazza.observers.drawing import PANEL_HEIGHT, PANEL_WIDTH, Curve, new_figure, save_figure, smoothed

COLUMNS_MAX = 3
"""Axes in a row; of four, two stand in each."""
LEGEND_COLUMNS, LINE_HEIGHT = 3, 0.22
NAME_MAX = 40
"""Characters of a name; a longer one is shortened in its middle."""


def draw_comparison(
    path: str | os.PathLike[str], trainings: Mapping[str, Mapping[str, Curve]], *, title: str = ""
) -> None:
    """Draw axes for each thing that was measured, with a curve of each training that has it.

    Args:
        path: the picture.
        trainings: curves by name of a training and of what was measured, such as `loss`.
        title: stands above.

    Raises:
        ArgumentError: there are no curves.
        UnavailableError: matplotlib cannot be imported.
        FileError: the file cannot be written.
    """
    measured = list(dict.fromkeys(name for curves in trainings.values() for name in curves))
    if not measured:
        raise ArgumentError("there are no curves to compare")
    columns = 2 if len(measured) == 4 else min(COLUMNS_MAX, len(measured))
    rows = math.ceil(len(measured) / columns)
    legend = LINE_HEIGHT * (1 + math.ceil(len(trainings) / LEGEND_COLUMNS))
    figure = new_figure(PANEL_WIDTH * columns, PANEL_HEIGHT * rows + legend)
    lines: dict[str, Any] = {}
    for place, name in enumerate(measured):
        axes = figure.add_subplot(rows, columns, place + 1, xlabel="iteration (steps)")
        drawn = {run: curves[name] for run, curves in trainings.items() if name in curves}
        lines.update(_draw(axes, name, drawn, list(trainings)))
    shown = [run for run in trainings if run in lines]
    figure.legend(
        [lines[run] for run in shown],
        [_short(run) for run in shown],
        loc="outside lower center",
        ncols=LEGEND_COLUMNS,
        frameon=False,
    )
    if title:
        figure.suptitle(title)
    save_figure(figure, path)


def _draw(axes: Any, name: str, drawn: Mapping[str, Curve], runs: list[str]) -> dict[str, Any]:
    """Draw the curves of one thing and return the line of each training; a training has one colour everywhere."""
    noisy = "rate" not in name and any(len(curve.values) > 100 for curve in drawn.values())
    lines: dict[str, Any] = {}
    width = 1
    for run, curve in drawn.items():
        shown, width = smoothed(curve) if noisy else (curve, 1)
        place = runs.index(run)
        marks = {"marker": "o", "markersize": 3} if len(curve.values) <= 50 else {}
        dashes = ("-", "--", ":", "-.")[place // 10 % 4]
        (lines[run],) = axes.plot(shown.iterations, shown.values, dashes, color=f"C{place % 10}", **marks)
    told = name.replace("_", " ")
    axes.set_title(told)
    logarithmic = "loss" in name and all(value > 0 for curve in drawn.values() for value in curve.values)
    if logarithmic:
        axes.set_yscale("log")
    notes = ["share of labels"] * ("accuracy" in name) + [f"mean of {width} steps"] * (width > 1)
    notes += ["log scale"] * logarithmic
    axes.set_ylabel(f"{told} ({', '.join(notes)})" if notes else told)
    axes.grid(alpha=0.25)
    return lines


def _short(name: str) -> str:
    half = NAME_MAX // 2
    return name if len(name) <= NAME_MAX else f"{name[: half - 1]}…{name[-half:]}"
