"""Finding a learning rate: a short training whose rate grows from step to step, and what its losses say.

Source: Smith 2017, arXiv 1506.01186, section 3.3.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.images import Progress, no_progress
from tazza.errors import NumericError
from tazza.fitting.solver import Solver
from tazza.fitting.source import Source
from tazza.fitting.training import FitOptions, PictureTraining
from tazza.runtime.csv_lines import csv_lines
from tazza.runtime.files import write_bytes_atomically

LOWEST, HIGHEST, STEPS = 1e-5, 10.0, 100
"""Rates, and how many are tried, each by one step, equally far apart by their ratio."""
OVER = 4.0
"""The end is where a loss is so many times the lowest."""
BELOW_BEST = 10.0
"""What is suggested is the rate of the lowest loss by this: there the loss still falls, and fast."""
SMOOTHED = 0.8
"""Share of the mean of the losses before in that of each step."""


@dataclass(frozen=True, slots=True)
class FoundRates:
    """The rates that were tried, the loss at each, their running mean, and the rate that is suggested."""

    rates: Sequence[float]
    losses: Sequence[float]
    means: Sequence[float]

    @property
    def suggested(self) -> float:
        """A tenth of the rate whose mean loss was lowest, to two digits.

        >>> FoundRates([0.01, 0.1, 1.0, 10.0], [3, 2, 1, 9], [3, 2, 1, 9]).suggested
        0.1
        """
        return float(f"{self.rates[int(np.argmin(self.means))] / BELOW_BEST:.1e}")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a table (CSV) of rates and losses.

        Raises:
            FileError: it cannot be written.
        """
        titles = ("learning_rate", "loss", "mean_loss")
        rows = zip(self.rates, self.losses, self.means, strict=True)
        write_bytes_atomically(path, "".join(csv_lines([titles, *rows])).encode())

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Draw the losses over the rates, with the one that is suggested.

        Raises:
            UnavailableError: matplotlib cannot be imported.
            FileError: the file cannot be written.
        """
        from tazza.observers.drawing import new_figure, save_figure

        figure = new_figure(6.0, 3.6)
        axes = figure.add_subplot(1, 1, 1, title="loss", xlabel="learning rate", xscale="log")
        axes.plot(self.rates, self.losses, color="C0", alpha=0.3)
        axes.plot(self.rates, self.means, color="C0", label="mean")
        axes.axvline(self.suggested, color="C1", linestyle="--", label=f"suggested: {self.suggested:g}")
        axes.set_ylim(min(self.losses), max(self.means[0], self.losses[0]) * 1.5)
        axes.legend(loc="upper left", frameon=False)
        save_figure(figure, path)


def smoothed(losses: Sequence[float]) -> NDArray[Any]:
    """Return the running mean of losses; the first ones count as much as there are of them.

    >>> smoothed([1.0, 2.0]).round(3).tolist()
    [1.0, 1.556]
    """
    mean, made = 0.0, np.empty(len(losses))
    for at, loss in enumerate(losses):
        mean = SMOOTHED * mean + (1 - SMOOTHED) * loss
        made[at] = mean / (1 - SMOOTHED ** (at + 1))
    return made


def find_rate(
    net: str | os.PathLike[str],
    source: Source,
    folder: Path,
    options: FitOptions,
    *,
    progress: Progress = no_progress,
) -> FoundRates:
    """Train with growing rates, until the loss explodes; nothing of what was learned is kept.

    Arguments and errors are those of `PictureTraining`; the policy, the rate and the length of the training are not
    looked at.
    """
    growth = (HIGHEST / LOWEST) ** (1 / STEPS)
    own = {name: value for name, value in options.solver.options.items() if name not in ("gamma", "power", "stepsize")}
    solver = Solver(options.solver.name, LOWEST, "exp", {**own, "gamma": growth})
    rates: list[float] = []
    losses: list[float] = []
    tried = replace(options, solver=solver, iterations=STEPS)
    with PictureTraining(net, source, folder, tried, progress) as training:
        try:
            for step in training.steps():
                assert step.learning_rate is not None, "the optimizer has one"
                rates.append(step.learning_rate)
                losses.append(step.loss)
                if smoothed(losses)[-1] > OVER * smoothed(losses).min():
                    break
        except NumericError:
            if not losses:
                raise
    return FoundRates(rates, losses, smoothed(losses).tolist())
