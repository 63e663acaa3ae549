"""How often a classifier took each class for which, and what follows for each class: precision, recall, count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.runtime.csv_lines import csv_lines

HEADER = ("class", "name", "count", "predicted", "correct", "precision", "recall", "taken_for", "taken_for_count")
"""Columns of the table of classes as a file."""


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """One class: `count` records have its label, `predicted` were taken for it, `correct` of them rightly."""

    number: int
    name: str
    count: int
    predicted: int
    correct: int
    taken_for: str | None
    """Name of the class that its records were most often taken for wrongly."""
    taken_for_count: int

    @property
    def recall(self) -> float | None:
        """Share of its records that were found; None where there are none."""
        return self.correct / self.count if self.count else None

    @property
    def precision(self) -> float | None:
        """Share of what was taken for it that is of it; None where nothing was."""
        return self.correct / self.predicted if self.predicted else None


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of (label, what it was taken for), over `classes` classes; those that have names go by them.

    >>> confusion = Confusion(3, {(0, 0): 4, (1, 1): 3, (1, 2): 2}, ("cat", "dog"))
    >>> confusion.matrix().tolist()
    [[4, 0, 0], [0, 3, 2], [0, 0, 0]]
    >>> [(one.name, one.recall, one.precision, one.taken_for) for one in confusion.worst_first()]
    [('dog', 0.6, 1.0, '2'), ('cat', 1.0, 1.0, None), ('2', None, 0.0, None)]
    """

    classes: int
    pairs: Mapping[tuple[int, int], int]
    names: Sequence[str] = field(default=())

    @property
    def count(self) -> int:
        """Records in all."""
        return sum(self.pairs.values())

    @property
    def correct(self) -> int:
        """Records that were taken for what they are."""
        return sum(count for (label, predicted), count in self.pairs.items() if label == predicted)

    def name(self, number: int) -> str:
        """Return the name of a class: its number where it has none."""
        return self.names[number] if 0 <= number < len(self.names) else str(number)

    def matrix(self, groups: int | None = None) -> NDArray[np.int64]:
        """Return the counts, a row for each label and a column for what it was taken for.

        With `groups`, of so many groups of classes that follow each other, such as a picture has room for.
        """
        extent = self.classes if groups is None else min(groups, self.classes)
        counts = np.zeros((extent, extent), np.int64)
        for (label, predicted), count in self.pairs.items():
            counts[label * extent // self.classes, predicted * extent // self.classes] += count
        return counts

    def per_class(self) -> list[ClassFigures]:
        """Return the figures of each class, in order."""
        labels, found, correct = Counter[int](), Counter[int](), Counter[int]()
        wrong: dict[int, tuple[int, int]] = {}  # of a label: how often, and minus the class, so that the first one wins
        for (label, predicted), count in self.pairs.items():
            labels[label] += count
            found[predicted] += count
            if label == predicted:
                correct[label] += count
            else:
                wrong[label] = max(wrong.get(label, (0, 0)), (count, -predicted))
        return [
            ClassFigures(
                number,
                self.name(number),
                labels[number],
                found[number],
                correct[number],
                self.name(-wrong[number][1]) if number in wrong else None,
                wrong[number][0] if number in wrong else 0,
            )
            for number in range(self.classes)
        ]

    def worst_first(self) -> list[ClassFigures]:
        """Return the figures of each class, that of the least recall first; classes without records come last."""
        return sorted(self.per_class(), key=lambda one: (2.0 if one.recall is None else one.recall, -one.count))

    def csv(self) -> str:
        """Return the figures of each class as a table of text; what is not known is an empty cell."""
        rows: list[Sequence[object]] = [HEADER]
        for one in self.per_class():
            shares = ["" if share is None else repr(share) for share in (one.precision, one.recall)]
            other = "" if one.taken_for is None else one.taken_for
            rows.append(
                [one.number, one.name, one.count, one.predicted, one.correct, *shares, other, one.taken_for_count]
            )
        return "".join(csv_lines(rows))
