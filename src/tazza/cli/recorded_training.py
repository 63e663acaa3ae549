"""What a training left in its folder, read to be compared: settings, steps, tests, figures, times."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from tazza.cli.train_folder import HISTORY, SETTINGS
from tazza.data_class import dataclass
from tazza.errors import FileError, FormatError
from tazza.models.step_times import TIMES
from tazza.observers.drawing import Curve
from tazza.runtime.files import kind_of, one_line, read_json, read_text, shown

FIGURES = "figures.json"
STEP, LOSS, RATE = "iteration", "loss", "learning_rate"
STEP_COLUMNS = (LOSS, "accuracy", RATE)
"""Columns of a history that each step has; all others are what was tested."""
LAST = 20
"""Steps of whose losses the last loss is the mean."""
LESS_IS_BETTER, MORE_IS_BETTER = ("loss", "error"), ("accuracy",)
"""Words in names of figures that say which of two is better; of other figures nobody says."""


@dataclass(frozen=True, slots=True)
class OfTests:
    """What the tests of a training gave: the best and where it was, and the last; `best` None: nobody says what is."""

    best: float | None
    best_step: int | None
    last: float


@dataclass(frozen=True, slots=True)
class RecordedTraining:
    """One training; `settings` by name, those of a task as `options.NAME`; curves by column of the history."""

    name: str
    settings: Mapping[str, Any]
    steps: Mapping[str, Curve]
    tests: Mapping[str, Curve]
    figures: Mapping[str, float]
    seconds_per_step: float | None

    @property
    def iterations(self) -> int:
        """The last step."""
        return self.steps[LOSS].iterations[-1]

    @property
    def loss(self) -> float:
        """Mean loss of the last steps."""
        values = self.steps[LOSS].values[-LAST:]
        return sum(values) / len(values)

    def tested(self, name: str) -> OfTests | None:
        """Return what the tests gave; None where there is no such column."""
        curve = self.tests.get(name)
        if curve is None:
            return None
        better = better_of(name)
        if better is None:
            return OfTests(None, None, curve.values[-1])
        best = better(curve.values)
        return OfTests(best, curve.iterations[curve.values.index(best)], curve.values[-1])


def better_of(name: str) -> Callable[[Iterable[float]], float] | None:
    """Return what gives the better of several values of a figure, by its name; None where nobody says.

    >>> better_of("test_loss")([0.5, 0.25]), better_of("test_accuracy")([0.5, 0.25]), better_of("words_per_s")
    (0.25, 0.5, None)
    """
    if any(word in name for word in LESS_IS_BETTER):
        return min
    return max if any(word in name for word in MORE_IS_BETTER) else None


def read_training(folder: Path, name: str) -> RecordedTraining:
    """Read the folder of a training.

    Raises:
        FileError: there is no training, or a file cannot be read.
        FormatError: a file is something else.
    """
    if kind_of(folder / HISTORY) is None:
        raise FileError(
            f"{shown(folder)} holds no training with a {HISTORY}", hint="name the --out folder of a tazza train"
        )
    columns = read_columns(folder / HISTORY)
    if LOSS not in columns:
        raise FormatError(f"{shown(folder / HISTORY)} has no step with a {LOSS}", hint="train longer, or again")
    figures = _numbers(folder / FIGURES)
    times = _numbers(folder / TIMES)
    return RecordedTraining(
        name,
        _settings(folder / SETTINGS),
        {each: columns[each] for each in STEP_COLUMNS if each in columns},
        {_called(each, figures): curve for each, curve in columns.items() if each not in STEP_COLUMNS},
        figures,
        times.get("seconds_per_step"),
    )


def _called(column: str, figures: Mapping[str, float]) -> str:
    """Return what a test gives: a task's column `tested` is the first of its figures."""
    return next(iter(figures), column) if column == "tested" else column


def read_columns(path: Path) -> dict[str, Curve]:
    """Return the columns of a history that have a value at all.

    Raises:
        FileError: it cannot be read.
        FormatError: it is something else.
    """
    what = "history of a training"
    text = read_text(path, what)
    try:
        rows = list(csv.reader(text.splitlines(), strict=True))
        header, *lines = rows
        if header[:2] != [STEP, LOSS] or len(set(header)) != len(header):
            raise ValueError(f"it begins with {', '.join(header)!r}")
        found: dict[str, Curve] = {}
        for place, name in enumerate(header[1:], 1):
            points = [(int(line[0]), _finite(line[place])) for line in lines if line[place]]
            if points:
                found[name] = Curve([at for at, _ in points], [value for _, value in points])
    except (ValueError, IndexError, csv.Error) as error:
        raise FormatError(f"{shown(path)} is no {what}: {one_line(error)}") from error
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no finite number")
    return value


def _numbers(path: Path) -> dict[str, float]:
    """Return numbers by name; none where there is no file."""
    what = "file with figures of a training"
    found = read_values(path, what)
    try:
        return {one_line(name): float(value) for name, value in found.items() if type(value) in (int, float)}
    except OverflowError as error:
        raise FormatError(f"{shown(path)} is no {what}: {one_line(error)}") from error


def _settings(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in read_values(path, "file with the settings of a training").items():
        if isinstance(value, dict):
            found.update(
                {one_line(f"{name}.{inner}"): _printable(each) for inner, each in cast("dict[str, Any]", value).items()}
            )
        else:
            found[one_line(name)] = _printable(value)
    return found


def _printable(value: Any) -> Any:
    """Return a value as it is, and a text such that it can be printed: half of a pair of UTF-16 as its number."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def read_values(path: Path, what: str = "file of a training") -> dict[str, Any]:
    """Return values by name, as a file of JSON holds them; none where there is no file.

    Raises:
        FileError: it cannot be read.
        FormatError: it holds something else.
    """
    if kind_of(path) is None:
        return {}
    found: Any = read_json(path, what)
    if not isinstance(found, dict):
        raise FormatError(f"{shown(path)} is no {what}: it holds {found!r:.60}")
    return cast("dict[str, Any]", found)
