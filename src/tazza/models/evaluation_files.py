"""What the last test of a training gave, as files beside it: figures of each class, and pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tazza.models.evaluation import Evaluation
from tazza.models.listener import TrainingListener
from tazza.models.training import Trainer
from tazza.runtime.files import make_folder, write_bytes_atomically

PER_CLASS, CONFUSION, LEAST_SURE = "per_class.csv", "confusion.png", "least_sure.png"
FILES = (PER_CLASS, CONFUSION, LEAST_SURE)
"""What is written; the last one where images were kept."""


class EvaluationFiles(TrainingListener):
    """Writes the files into a folder when a training has ended."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def finished(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        """Write the files, where the last test classified.

        Raises:
            UnavailableError: matplotlib cannot be imported.
            FileError: a file cannot be written.
        """
        del trainer
        if evaluation is not None:
            write_evaluation(self._folder, evaluation)


def write_evaluation(folder: str | os.PathLike[str], evaluation: Evaluation) -> None:
    """Write what a test gave into a folder, which is made if need be; errors as `EvaluationFiles.finished`."""
    make_folder(folder)
    write_bytes_atomically(Path(folder) / PER_CLASS, evaluation.confusion.csv().encode())
    draw_evaluation(Path(folder), evaluation)


def draw_evaluation(folder: Path, evaluation: Evaluation) -> None:
    """Draw what was confused, and the images that were kept; errors as `EvaluationFiles.finished`."""
    from tazza.models.confusion_picture import draw_confusion
    from tazza.observers.drawing import save_figure

    draw_confusion(folder / CONFUSION, evaluation.confusion, title=_headline(evaluation))
    figure = guesses_of(evaluation)
    if figure is not None:
        save_figure(figure, folder / LEAST_SURE)


def guesses_of(evaluation: Evaluation) -> Any:
    """Return a figure of the images that were kept, the confidently wrong beside the least sure; None without any.

    Raises:
        UnavailableError: matplotlib cannot be imported.
    """
    from tazza.observers.drawing import guesses_figure

    groups = {"least sure": evaluation.least_sure, "wrong, and surest of it": evaluation.confidently_wrong}
    if not any(groups.values()):
        return None
    return guesses_figure(groups, names=evaluation.confusion.names, title=_headline(evaluation))


def _headline(evaluation: Evaluation) -> str:
    return f"{evaluation.correct} of {evaluation.count} found: accuracy {evaluation.accuracy:.2%}"
