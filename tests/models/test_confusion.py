"""What a classifier confuses: figures of each class beside those of another formula, and files of them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError
from tazza.models.confusion import HEADER, Confusion
from tazza.models.confusion_picture import draw_confusion
from tazza.models.evaluation import Evaluation
from tazza.models.evaluation_files import FILES, write_evaluation
from tazza.observers.drawing import Guess

Integers = NDArray[np.int64]


def drawn(classes: int, records: int, names: tuple[str, ...] = ()) -> tuple[Confusion, Integers, Integers]:
    """Return a confusion of random labels, and the labels with what they were taken for."""
    random = np.random.default_rng(classes)
    labels, others = random.integers(0, classes, records), random.integers(0, classes, records)
    predicted: Integers = np.where(random.random(records) < 0.6, labels, others)
    return Confusion(classes, Counter(zip(labels.tolist(), predicted.tolist(), strict=True)), names), labels, predicted


def test_figures_of_each_class() -> None:
    confusion, labels, predicted = drawn(5, 83, ("cat", "dog"))
    counts = np.zeros((5, 5), int)
    np.add.at(counts, (labels, predicted), 1)
    np.testing.assert_array_equal(confusion.matrix(), counts)
    assert (confusion.count, confusion.correct) == (83, int((labels == predicted).sum()))
    figures = confusion.per_class()
    assert [one.name for one in figures] == ["cat", "dog", "2", "3", "4"]
    for number, one in enumerate(figures):
        both = np.count_nonzero((labels == number) & (predicted == number))
        assert one.recall == pytest.approx(both / np.count_nonzero(labels == number))
        assert one.precision == pytest.approx(both / np.count_nonzero(predicted == number))
        wrong = counts[number] * (np.arange(5) != number)
        assert one.taken_for == confusion.name(int(wrong.argmax()))
        assert one.taken_for_count == wrong.max()
    recalls = [one.recall for one in confusion.worst_first()]
    assert recalls == sorted(one.recall for one in figures if one.recall is not None)


def test_groups_of_classes_hold_all_records() -> None:
    confusion, labels, predicted = drawn(1000, 3000)
    grouped = confusion.matrix(100)
    assert grouped.shape == (100, 100)
    np.testing.assert_array_equal(grouped.sum(1), np.bincount(labels // 10, minlength=100))
    np.testing.assert_array_equal(grouped.sum(0), np.bincount(predicted // 10, minlength=100))


def test_a_table_of_classes() -> None:
    confusion = Confusion(3, {(0, 1): 2, (0, 0): 1, (1, 1): 4}, ('a "cat"', "dog, wet"))
    header, *rows = csv.reader(confusion.csv().splitlines())
    assert tuple(header) == HEADER
    assert rows == [
        ["0", 'a "cat"', "3", "1", "1", "1.0", repr(1 / 3), "dog, wet", "2"],
        ["1", "dog, wet", "4", "6", "4", repr(4 / 6), "1.0", "", "0"],
        ["2", "2", "0", "0", "0", "", "", "", "0"],
    ]


@pytest.mark.slow  # matplotlib
def test_files_of_an_evaluation(tmp_path: Path) -> None:
    guesses = [Guess(np.random.default_rng(1).normal(size=(5, 7, 3)), 0, 1, 0.9)] * 5
    write_evaluation(tmp_path / "out", Evaluation(drawn(4, 30, ("cat",))[0], guesses, guesses[:2]))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)
    write_evaluation(tmp_path / "none", Evaluation(drawn(60, 90)[0]))
    assert sorted(path.name for path in (tmp_path / "none").iterdir()) == ["confusion.png", "per_class.csv"]
    with pytest.raises(ArgumentError, match="no records"):
        draw_confusion(tmp_path / "a.png", Confusion(3, {}))
