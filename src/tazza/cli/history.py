"""What a training gave, step by step, as a table in a file: history.csv."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from tazza.errors import FormatError
from tazza.models.training import TrainingStep
from tazza.observers.drawing import Curve
from tazza.runtime.csv_lines import csv_lines
from tazza.runtime.files import kind_of, one_line, read_text, shown, write_bytes_atomically

HEADER = ["iteration", "loss", "accuracy", "learning_rate"]
"""Columns; behind them stands what was tested."""


class History:
    """Steps in order, and what the tests between them gave: accuracies, or what else `tested` says."""

    def __init__(self, tested: str = "test_accuracy") -> None:
        self.steps: list[TrainingStep] = []
        self.tests: dict[int, float] = {}
        """Iteration after which was tested -> what it gave."""
        self._column = tested

    def write(self, path: Path) -> None:
        """Write the table; what was there is replaced as a whole.

        Raises:
            FileError: it cannot be written.
        """
        rows: list[list[str]] = [[*HEADER, self._column]]
        for step in self.steps:
            values = step.iteration, step.loss, step.accuracy, step.learning_rate, self.tests.get(step.iteration)
            rows.append([_cell(value) for value in values])
        write_bytes_atomically(path, "".join(csv_lines(rows)).encode())

    @classmethod
    def read(cls, path: Path, until: int, tested: str = "test_accuracy") -> History:
        """Read the steps up to an iteration; a file that is missing has none.

        Raises:
            FileError, FormatError: the file cannot be read, or is something else.
        """
        made = cls(tested)
        if kind_of(path) is None:
            return made
        text = read_text(path, "history of a training")
        try:
            rows = list(csv.reader(text.splitlines()))
            for row in rows[1:]:
                iteration, loss, accuracy, rate, result = row
                if int(iteration) <= until:
                    made.steps.append(TrainingStep(int(iteration), float(loss), _number(accuracy), _number(rate)))
                    if result:
                        made.tests[int(iteration)] = float(result)
        except (ValueError, csv.Error) as error:
            raise FormatError(
                f"{shown(path)} is no history of a training: {one_line(error)}", hint="remove it"
            ) from error
        return made

    def curve(self, value: Callable[[TrainingStep], float | None]) -> Curve | None:
        """Return one value of all steps that have it; None when none has."""
        points = [(step.iteration, number) for step in self.steps if (number := value(step)) is not None]
        return Curve([at for at, _ in points], [number for _, number in points]) if points else None

    def rates(self) -> Curve | None:
        """Return the learning rates; None without any."""
        return self.curve(lambda step: step.learning_rate)

    def tested(self) -> Curve | None:
        """Return what the tests gave; None without any."""
        return Curve(list(self.tests), list(self.tests.values())) if self.tests else None


def _cell(value: float | None) -> str:
    return "" if value is None else repr(value)


def _number(text: str) -> float | None:
    return float(text) if text else None
