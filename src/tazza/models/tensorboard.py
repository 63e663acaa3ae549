"""A training as TensorBoard shows it: scalars, the graph of the net, histograms of parameters, pictures of a test.

    with TensorBoard(Path("out/tensorboard")) as board:
        fit(..., listeners=[board])

`tensorboard --logdir out` shows it then, also while it goes on. A training that goes on from a checkpoint writes into
the same folder; what an interrupted one had written beyond the checkpoint is not shown any more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ArgumentError
from tazza.graph.roles import roles_of
from tazza.models.evaluation import Evaluation
from tazza.models.listener import TrainingListener
from tazza.models.training import Trainer, TrainingStep
from tazza.observers.event_file import EventFile, protobuf
from tazza.observers.graph_def import graph_def
from tazza.operator import Role, Spec
from tazza.tensor import Tensor

WRITTEN_MAX = 1000
"""Steps that are written up to the first so many; of ten times as many, as many more at most."""


def is_written(iteration: int) -> bool:
    """Whether the scalars of a step are written: all of the first thousand, then each tenth up to ten thousand ...

    >>> [is_written(step) for step in (1, 999, 1000, 1001, 1010, 12_300, 12_310)]
    [True, True, True, False, True, True, False]
    """
    every = 1
    while iteration >= WRITTEN_MAX * every:
        every *= 10
    return iteration % every == 0


class TensorBoard(TrainingListener):
    """Writes event files into a folder."""

    def __init__(self, folder: str | os.PathLike[str], *, parameters: Sequence[str] | None = None) -> None:
        """Look whether TensorBoard's package is there; the folder is made when the training begins.

        Args:
            folder: of the run.
            parameters: blobs whose histograms are written at each test; None: what the net takes for parameters.

        Raises:
            UnavailableError: the package `tensorboard` cannot be imported.
        """
        protobuf("event")
        self._folder = Path(folder)
        self._parameters = parameters
        self._file: EventFile | None = None
        self._drawn = False
        self._last: tuple[int, float] | None = None
        """Step whose scalars were written last, and when that was; None where a test came in between."""

    def close(self) -> None:
        """Write what is left; closing twice is allowed."""
        if self._file is not None:
            self._file.close()

    @property
    def _events(self) -> EventFile:
        if self._file is None:
            raise ArgumentError("a training is told of before it began", hint="call began(trainer) first")
        return self._file

    def began(self, trainer: Trainer) -> None:
        """Open a file.

        Raises:
            FileError: it cannot be made.
        """
        self.close()
        self._file = EventFile(self._folder, first_step=trainer.iteration + 1)
        self._drawn, self._last = trainer.iteration > 0, None

    def stepped(self, trainer: Trainer, step: TrainingStep) -> None:
        """Write scalars; and behind the first step the graph, whose shapes are known then."""
        if not self._drawn:
            self._events.graph(graph_def(trainer.net.definition, lambda name: _spec(trainer, name)))
            self._drawn = True
        if not is_written(step.iteration):
            return
        values = {"loss": step.loss, "accuracy": step.accuracy, "learning_rate": step.learning_rate}
        now_s = time.perf_counter()
        if self._last is not None:
            iteration, then_s = self._last
            values["seconds_per_step"] = (now_s - then_s) / (step.iteration - iteration)
        self._last = step.iteration, now_s
        known = {f"train/{name}": value for name, value in values.items() if value is not None}
        self._events.scalars(step.iteration, known)

    def tested(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
        """Write what a test gave, and histograms of the parameters."""
        self._last = None  # a test is no part of a step's time
        step = trainer.iteration
        self._events.scalars(step, {f"test/{name.removeprefix('test_')}": value for name, value in figures.items()})
        self._events.histograms(step, self._tensors(trainer))
        self._events.flush()

    def _tensors(self, trainer: Trainer) -> dict[str, NDArray[Any]]:
        names = self._parameters
        if names is None:
            roles = roles_of(trainer.net.definition)
            names = [name for name, of_blob in roles.items() if Role.PARAMETER in of_blob]
        found: dict[str, NDArray[Any]] = {}
        for name in names:
            blob = trainer.workspace.get_blob(name)
            if blob is not None and isinstance(blob.value, Tensor):
                values = blob.value.plain()
                if values.size > 1 and np.issubdtype(values.dtype, np.number):
                    found[f"parameters/{name}"] = values
        return found

    def finished(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        """Write pictures of what the last test gave."""
        if evaluation is not None:
            from tazza.models.confusion_picture import confusion_figure
            from tazza.models.evaluation_files import guesses_of
            from tazza.observers.drawing import figure_bytes

            figures = {"test/confusion": confusion_figure(evaluation.confusion), "test/images": guesses_of(evaluation)}
            for tag, figure in figures.items():
                if figure is not None:
                    self._events.image(trainer.iteration, tag, figure_bytes(figure))
        self._events.flush()


def _spec(trainer: Trainer, name: str) -> Spec | None:
    blob = trainer.workspace.get_blob(name)
    return blob.value.spec if blob is not None and isinstance(blob.value, Tensor) else None
