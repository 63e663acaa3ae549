"""Pictures of a training: its curves, and the images that a net was least sure of. Needs matplotlib, imported on use.

A picture is drawn in memory and replaces its file as a whole.
"""

from __future__ import annotations

import importlib
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ArgumentError, UnavailableError
from tazza.runtime.files import write_bytes_atomically

SMOOTHED = 0.02
"""Share of all iterations over which the smooth curve averages."""
COLUMNS_MAX = 6
CELL_WIDTH, CELL_HEIGHT, TEXT_HEIGHT, TITLE_HEIGHT = 1.5, 1.9, 0.45, 0.4
"""Of one image with its text, in inches."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over iterations, as one line of a picture."""

    iterations: Sequence[int]
    values: Sequence[float]


@dataclass(frozen=True, eq=False, slots=True)
class Guess:
    """An image (H, W) or (H, W, 3), its label, what the net took it for, and how sure it was (0 to 1)."""

    image: NDArray[Any]
    label: int
    predicted: int
    probability: float


def draw_curves(
    path: str | os.PathLike[str],
    loss: Curve,
    accuracy: Curve | None,
    *,
    tested: Curve | None = None,
    tested_loss: Curve | None = None,
    title: str = "",
) -> None:
    """Draw the loss and, where it is known, the accuracy of a training; `tested` are accuracies on test data.

    `tested_loss` are losses on test data.

    Raises:
        UnavailableError: matplotlib cannot be imported.
        FileError: the file cannot be written.
    """
    figure = new_figure(9.0, 3.6)
    shown = [curve for curve in (accuracy, tested) if curve is not None]
    left = figure.add_subplot(1, 2 if shown else 1, 1, title="loss", xlabel="iteration")
    _draw_noisy(left, loss, "C0", "training")
    if tested_loss is not None:
        left.plot(tested_loss.iterations, tested_loss.values, "o-", color="C1", label="test", markersize=4)
        left.legend(loc="upper right", frameon=False)
    if all(value > 0 for value in loss.values):
        left.set_yscale("log")
    if shown:
        right = figure.add_subplot(1, 2, 2, title="accuracy", xlabel="iteration")
        if accuracy is not None:
            _draw_noisy(right, accuracy, "C0", "training")
        if tested is not None:
            right.plot(tested.iterations, tested.values, "o-", color="C1", label="test", markersize=4)
        right.set_ylim(min(0.9, *(float(np.quantile(curve.values, 0.1)) for curve in shown)), 1.005)
        right.legend(loc="lower right", frameon=False)
    if title:
        figure.suptitle(title)
    save_figure(figure, path)


def draw_least_sure(path: str | os.PathLike[str], guesses: Sequence[Guess], *, title: str = "") -> None:
    """Draw a grid of images, each with its label, what it was taken for and the probability of that; errors in red.

    Raises:
        ArgumentError: there is no image.
        UnavailableError: matplotlib cannot be imported.
        FileError: the file cannot be written.
    """
    if not guesses:
        raise ArgumentError("there is no image to draw")
    columns = min(COLUMNS_MAX, len(guesses))
    rows = math.ceil(len(guesses) / columns)
    width, height = CELL_WIDTH * columns, CELL_HEIGHT * rows + TITLE_HEIGHT
    figure = new_figure(width, height, layout=None)  # every place is known; a layout engine would take a second
    figure.suptitle(title, fontsize=10, y=1 - TITLE_HEIGHT / 2 / height)
    for position, guess in enumerate(guesses):
        row, column = divmod(position, columns)
        left, bottom = CELL_WIDTH * column, CELL_HEIGHT * (rows - 1 - row)
        place = (left / width, bottom / height, 0.95 * CELL_WIDTH / width, (CELL_HEIGHT - TEXT_HEIGHT) / height)
        axes = figure.add_axes(place, frameon=False, xticks=[], yticks=[])
        axes.imshow(guess.image, cmap="gray")
        wrong = guess.predicted != guess.label
        text = f"{guess.label} taken for {guess.predicted}" if wrong else f"{guess.label}"
        axes.set_title(f"{text}\n{guess.probability:.0%}", fontsize=9, color="C3" if wrong else "black")
    save_figure(figure, path)


def save_image(path: str | os.PathLike[str], image: NDArray[Any]) -> None:
    """Write an image (H, W) or (H, W, 3) of numbers from 0 to 1 as a picture of bytes, as it would be read again.

    Raises:
        FileError: the file cannot be written.
    """
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.clip(np.rint(image * 256), 0, 255).astype(np.uint8)).save(buffer, format="png")
    write_bytes_atomically(path, buffer.getvalue())


def check_drawing() -> None:
    """Check that pictures can be drawn, for those who will draw at the end of a long work.

    Raises:
        UnavailableError: matplotlib cannot be imported.
    """
    try:
        importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise UnavailableError(
            f"pictures need matplotlib, which cannot be imported: {error}", hint="pip install 'tazza[pictures]'"
        ) from error


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Any:
    """Return an empty figure, untyped: matplotlib leaves the types of most of its arguments open.

    Raises:
        UnavailableError: matplotlib cannot be imported.
    """
    check_drawing()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def _draw_noisy(axes: Any, curve: Curve, color: str, label: str) -> None:
    """Draw a curve faintly, and its moving average over it."""
    width = max(1, round(SMOOTHED * len(curve.values)))
    axes.plot(curve.iterations, curve.values, color=color, alpha=0.25 if width > 1 else 1.0, linewidth=0.8)
    smooth = np.convolve(np.asarray(curve.values, float), np.full(width, 1 / width), "valid")
    axes.plot(list(curve.iterations)[width - 1 :], smooth, color=color, label=label)


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, as a whole or not at all; the name's ending says in what format, PNG by default.

    Raises:
        ArgumentError: the ending is that of no format.
        FileError: the file cannot be written.
    """
    buffer = io.BytesIO()
    format = Path(path).suffix.lstrip(".").lower()
    formats = figure.canvas.get_supported_filetypes()
    if format and format not in formats:
        raise ArgumentError(f"'{path}' ends in no format of pictures", hint=f"formats: {', '.join(sorted(formats))}")
    figure.savefig(buffer, format=format if format else "png", dpi=120)
    write_bytes_atomically(path, buffer.getvalue())
