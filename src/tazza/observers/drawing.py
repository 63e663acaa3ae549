"""Pictures of a training: its curves, and images with what a net took them for. Needs matplotlib, imported on use.

A picture is drawn in memory and replaces its file as a whole.
"""

from __future__ import annotations

import importlib
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, UnavailableError
from tazza.runtime.files import write_bytes_atomically

SMOOTHED = 0.02
"""Share of all iterations over which the smooth curve averages."""
PANEL_WIDTH, PANEL_HEIGHT = 4.5, 3.6
"""Of one set of axes, in inches."""
COLUMNS_MAX, COLUMNS_BESIDE = 6, 4
"""Images in a row where they stand alone, and where others stand beside them."""
CELL_WIDTH, CELL_HEIGHT, TEXT_HEIGHT, TITLE_HEIGHT, GAP = 1.5, 1.9, 0.45, 0.4, 0.4
"""Of one image with its text, in inches; the gap lies between groups of images."""
NAME_MAX = 16
"""Characters of a class's name for which there is room over an image."""
DPI = 120


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
    rate: Curve | None = None,
    title: str = "",
) -> None:
    """Draw the loss of a training and, where they are known, its accuracy and its learning rate.

    Args:
        path: the picture.
        loss: of the steps.
        accuracy: of the steps, from 0 to 1.
        tested: accuracies on test data.
        tested_loss: losses on test data.
        rate: what the net learned by.
        title: stands above.

    Raises:
        UnavailableError: matplotlib cannot be imported.
        FileError: the file cannot be written.
    """
    accuracies = [curve for curve in (accuracy, tested) if curve is not None]
    panels = 1 + bool(accuracies) + (rate is not None)
    figure = new_figure(PANEL_WIDTH * panels, PANEL_HEIGHT)
    axes = [figure.add_subplot(1, panels, place + 1, xlabel="iteration (steps)") for place in range(panels)]
    for each in axes:
        each.grid(alpha=0.25)
    _draw_losses(axes[0], loss, tested_loss)
    if accuracies:
        _draw_accuracies(axes[1], accuracy, tested)
    if rate is not None:
        axes[-1].plot(rate.iterations, rate.values, color="C2")
        axes[-1].set_title("learning rate")
        axes[-1].set_ylabel("learning rate (per step)")
        axes[-1].set_ylim(bottom=0)
    if title:
        figure.suptitle(title)
    save_figure(figure, path)


def _draw_losses(axes: Any, loss: Curve, tested: Curve | None) -> None:
    logarithmic = all(value > 0 for value in loss.values)
    axes.set_title("loss")
    axes.set_ylabel(f"loss (mean of a batch{', log scale' if logarithmic else ''})")
    _draw_noisy(axes, loss, "C0", "training")
    if tested is not None:
        axes.plot(tested.iterations, tested.values, "o-", color="C1", label="test", markersize=4)
    if logarithmic:
        axes.set_yscale("log")
    axes.legend(loc="upper right", frameon=False)


def _draw_accuracies(axes: Any, accuracy: Curve | None, tested: Curve | None) -> None:
    axes.set_title("accuracy")
    axes.set_ylabel("accuracy (% of labels found)")
    curves: list[Curve] = []
    if accuracy is not None:
        curves.append(_percent(accuracy))
        _draw_noisy(axes, curves[-1], "C0", "training")
    if tested is not None:
        curves.append(_percent(tested))
        axes.plot(curves[-1].iterations, curves[-1].values, "o-", color="C1", label="test", markersize=4)
    axes.set_ylim(min(90.0, *(float(np.quantile(curve.values, 0.1)) for curve in curves)), 100.5)
    axes.legend(loc="lower right", frameon=False)


def _percent(curve: Curve) -> Curve:
    return Curve(curve.iterations, [100 * value for value in curve.values])


def draw_least_sure(
    path: str | os.PathLike[str], guesses: Sequence[Guess], *, names: Sequence[str] = (), title: str = ""
) -> None:
    """Draw a grid of images, each with its label, what it was taken for and the probability of that; errors in red.

    Classes go by `names`, those beyond by their numbers.

    Raises:
        ArgumentError: there is no image.
        UnavailableError: matplotlib cannot be imported.
        FileError: the file cannot be written.
    """
    save_figure(guesses_figure({"": guesses}, names=names, title=title), path)


def guesses_figure(groups: Mapping[str, Sequence[Guess]], *, names: Sequence[str] = (), title: str = "") -> Any:
    """Return a figure of images in groups beside each other, each under its heading; see `draw_least_sure`.

    Raises:
        ArgumentError: there is no image.
        UnavailableError: matplotlib cannot be imported.
    """
    shown = {heading: guesses for heading, guesses in groups.items() if guesses}
    if not shown:
        raise ArgumentError("there is no image to draw")
    columns_max = COLUMNS_MAX if len(shown) == 1 else COLUMNS_BESIDE
    columns = [min(columns_max, len(guesses)) for guesses in shown.values()]
    rows = max(math.ceil(len(guesses) / columns_max) for guesses in shown.values())
    headings = TITLE_HEIGHT if any(shown) else 0.0
    page = (
        CELL_WIDTH * sum(columns) + GAP * (len(shown) - 1),
        CELL_HEIGHT * rows + headings + TITLE_HEIGHT,
    )
    width, height = page
    figure = new_figure(width, height, layout=None)  # every place is known; a layout engine would take a second
    figure.suptitle(title, fontsize=10, y=1 - TITLE_HEIGHT / 2 / height)
    left = 0.0
    for (heading, guesses), count in zip(shown.items(), columns, strict=True):
        middle = (left + CELL_WIDTH * count / 2) / width
        figure.text(middle, 1 - (TITLE_HEIGHT + headings / 2) / height, heading, ha="center", va="center", fontsize=10)
        for position, guess in enumerate(guesses):
            row, column = divmod(position, count)
            place = (left + CELL_WIDTH * (column + 0.025), CELL_HEIGHT * (rows - 1 - row))
            _draw_guess(figure, page, place, guess, names)
        left += CELL_WIDTH * count + GAP
    return figure


def _draw_guess(
    figure: Any, page: tuple[float, float], place: tuple[float, float], guess: Guess, names: Sequence[str]
) -> None:
    width, height = page
    extent = (0.95 * CELL_WIDTH / width, (CELL_HEIGHT - TEXT_HEIGHT) / height)
    axes = figure.add_axes((place[0] / width, place[1] / height, *extent), frameon=False, xticks=[], yticks=[])
    axes.imshow(_shown(guess.image), cmap="gray")
    wrong = guess.predicted != guess.label
    label, taken_for = (_short(names, number) for number in (guess.label, guess.predicted))
    text = f"{label}\ntaken for {taken_for}" if wrong else label
    axes.set_title(f"{text}\n{_share(guess.probability)}", fontsize=7.5, color="C3" if wrong else "black", pad=3)


def _short(names: Sequence[str], number: int) -> str:
    name = names[number] if 0 <= number < len(names) else str(number)
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"


def _share(probability: float) -> str:
    """Return a probability in percent; what would be rounded to 100 % with a digit more.

    >>> _share(0.421), _share(0.9971), _share(1.0)
    ('42%', '99.7%', '100%')
    """
    return f"{probability:.1%}" if 0.995 <= probability < 0.9995 else f"{probability:.0%}"


def _shown(image: NDArray[Any]) -> NDArray[Any]:
    """Return an image as bytes, or with numbers from 0 to 1: what was shifted or scaled for a net is spread over that.

    >>> _shown(np.array([[[-1.0, 0.0, 3.0]]])).tolist()
    [[[0.0, 0.25, 1.0]]]
    """
    if image.ndim == 2 or image.dtype == np.uint8:
        return image
    low, high = float(image.min()), float(image.max())
    return image if low >= 0 and high <= 1 else (image - low) / max(high - low, 1e-30)


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
    smooth, width = smoothed(curve)
    axes.plot(curve.iterations, curve.values, color=color, alpha=0.25 if width > 1 else 1.0, linewidth=0.8)
    label = f"{label}, mean of {width} steps" if width > 1 else label
    axes.plot(smooth.iterations, smooth.values, color=color, label=label)


def smoothed(curve: Curve) -> tuple[Curve, int]:
    """Return the moving average of a curve, and over how many values it goes.

    >>> smoothed(Curve(range(1, 101), [0.0, 2.0] * 50))[0].values[:3]
    [1.0, 1.0, 1.0]
    """
    width = max(1, round(SMOOTHED * len(curve.values)))
    means = np.convolve(np.asarray(curve.values, float), np.full(width, 1 / width), "valid")
    return Curve(list(curve.iterations)[width - 1 :], means.tolist()), width


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, as a whole or not at all; the name's ending says in what format, PNG by default.

    Raises:
        ArgumentError: the ending is that of no format.
        FileError: the file cannot be written.
    """
    format = Path(path).suffix.lstrip(".").lower()
    formats = figure.canvas.get_supported_filetypes()
    if format and format not in formats:
        raise ArgumentError(f"'{path}' ends in no format of pictures", hint=f"formats: {', '.join(sorted(formats))}")
    write_bytes_atomically(path, figure_bytes(figure, format if format else "png"))


def figure_bytes(figure: Any, format: str = "png") -> bytes:
    """Return a figure as the bytes of a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, dpi=DPI)
    return buffer.getvalue()
