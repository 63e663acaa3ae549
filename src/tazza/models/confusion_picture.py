"""A picture of what a classifier confuses, readable for two classes and for a thousand. Needs matplotlib."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tazza.errors import ArgumentError
from tazza.models.confusion import Confusion
from tazza.observers.drawing import new_figure, save_figure

COUNTED_MAX, NAMED_MAX, GROUPS_MAX = 20, 50, 100
"""Up to so many classes each cell has its count, each class its name; more than the last are drawn in groups."""
CELL, CELLS_MIN, MARGIN, LIST_WIDTH = 0.42, 1.8, 2.2, 3.6
"""Inches: of a cell with a count, of all cells at least, of what is beside them, of the list of confusions."""
MATRIX = 6.5
"""Inches of all cells where they have no counts."""
LISTED = 20
"""Confusions that are listed beside cells without counts."""
NAME_MAX = 24
FAINTEST = 0.08
"""Of a colour scale: how a cell that holds anything at all is drawn."""


def draw_confusion(path: str | os.PathLike[str], confusion: Confusion, *, title: str = "") -> None:
    """Draw a cell for each label (a row) and what it was taken for (a column).

    The colour of a cell is its share of the records of its row: blue where the net is right, red where it is wrong.
    Where there are too many classes for counts, the most frequent confusions are listed beside it.

    Raises:
        ArgumentError: there are no records.
        UnavailableError: matplotlib cannot be imported.
        FileError: the file cannot be written.
    """
    save_figure(confusion_figure(confusion, title=title), path)


def confusion_figure(confusion: Confusion, *, title: str = "") -> Any:
    """Return the figure that `draw_confusion` writes; errors as there, but for files."""
    if not confusion.count:
        raise ArgumentError("there are no records to draw a confusion matrix of")
    counted = confusion.classes <= COUNTED_MAX
    extent = max(CELL * confusion.classes, CELLS_MIN) if counted else MATRIX
    figure = new_figure(extent + MARGIN + (0 if counted else LIST_WIDTH), extent + MARGIN)
    grid = figure.add_gridspec(1, 1 if counted else 2, width_ratios=None if counted else [extent + MARGIN, LIST_WIDTH])
    axes = figure.add_subplot(grid[0, 0], xlabel="taken for", ylabel="label")
    counts = _draw_cells(axes, confusion)
    _name_classes(axes, confusion, len(counts))
    if counted:
        for row, column in np.argwhere(counts):
            share = counts[row, column] / counts[row].sum()
            color = "white" if share > 0.5 else "black"
            text = str(counts[row, column])
            axes.text(column, row, text, ha="center", va="center", fontsize=9 if len(text) < 5 else 7, color=color)
    else:
        _list_confusions(figure.add_subplot(grid[0, 1]), confusion)
    figure.suptitle(f"{title}\nright in blue, wrong in red".strip(), fontsize=10)
    return figure


def _draw_cells(axes: Any, confusion: Confusion) -> Any:
    """Draw the cells and return their counts; what was confused within a group makes its cell fainter."""
    counts = confusion.matrix(GROUPS_MAX)
    right = np.zeros(len(counts))
    for one in confusion.per_class():
        right[one.number * len(counts) // confusion.classes] += one.correct
    parts = {"Blues": np.diag(right), "Reds": counts * ~np.eye(len(counts), dtype=bool)}
    for colors, part in parts.items():
        shares = part / np.maximum(counts.sum(1, keepdims=True), 1)
        seen = np.ma.masked_where(part == 0, FAINTEST + (1 - FAINTEST) * np.sqrt(shares))
        axes.imshow(seen, cmap=colors, vmin=0, vmax=1.25, interpolation="nearest")
    axes.set_facecolor("0.97")
    return counts


def _name_classes(axes: Any, confusion: Confusion, extent: int) -> None:
    if confusion.classes <= NAMED_MAX:
        names = [_short(confusion.name(number)) for number in range(extent)]
        longest = max(map(len, names))
        size = 9 if confusion.classes <= COUNTED_MAX else 6
        axes.set_xticks(range(extent), names, rotation=90 if longest > 3 else 0, fontsize=size)
        axes.set_yticks(range(extent), names, fontsize=size)
        return
    step = next(step for step in (10, 20, 50, 100, 200, 500, 1000, confusion.classes) if confusion.classes / step <= 12)
    numbers = range(0, confusion.classes, step)
    places = [number * extent / confusion.classes - 0.5 * (extent < confusion.classes) for number in numbers]
    for set_ticks in (axes.set_xticks, axes.set_yticks):
        set_ticks(places, list(map(str, numbers)), fontsize=8)
    each = "" if extent == confusion.classes else f", {confusion.classes / extent:.3g} to a cell"
    axes.set_xlabel(f"taken for (class number{each})")
    axes.set_ylabel(f"label (class number{each})")


def _list_confusions(axes: Any, confusion: Confusion) -> None:
    axes.set_axis_off()
    wrong = [(count, pair) for pair, count in confusion.pairs.items() if pair[0] != pair[1]]
    wrong.sort(key=lambda one: (-one[0], one[1]))
    of_label = {one.number: one.count for one in confusion.per_class()}
    lines: list[str] = []
    for count, (label, predicted) in wrong[:LISTED]:
        name, other = _short(confusion.name(label)), _short(confusion.name(predicted))
        lines.append(f"{name}\n   taken for {other}: {count} of {of_label[label]}")
    text = "\n".join(lines) if lines else "nothing was confused"
    axes.text(0, 1, f"most frequent:\n\n{text}", ha="left", va="top", fontsize=8, transform=axes.transAxes)


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"
