"""`tazza.fit`: training a classifier of pictures in one call."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.fitting.augmentation import Augmentation
from tazza.fitting.option import is_whole
from tazza.fitting.solver import Solver
from tazza.fitting.source import ArraysGiven, find_source
from tazza.fitting.training import BEST, FitOptions, PictureTraining, best_test, waited_since_best
from tazza.images.preprocessing import Preprocessing
from tazza.interop import Predictor, export_nets, load
from tazza.models.evaluation import Evaluation
from tazza.models.listener import TrainingListener
from tazza.models.training import TrainingStep
from tazza.models.zoo.classifier import SOFTMAX
from tazza.registry import Registry
from tazza.runtime.alone import LOCK, alone
from tazza.runtime.closing import Closing
from tazza.runtime.files import shown
from tazza.workspace import Workspace

SOLVER_FIELDS = {"solver": "name", "learning_rate": "learning_rate", "policy": "policy"}


def fit_options(given: Mapping[str, Any]) -> FitOptions:
    """Return the options that are said by name: those of `FitOptions`, `Augmentation` and `Solver`, side by side.

    `solver` is the name of the optimizer; what optimizers and policies take goes by its own name into `solver_options`.

    >>> fit_options({"epochs": 3, "flip": True, "solver": "adam", "solver_options": {"beta1": 0.8}}).solver.name
    'adam'

    Raises:
        ArgumentError: there is no option of a name, or a value is out of its range.
    """
    known: Registry[str, str] = Registry("option of a training")
    groups = {"fit": FitOptions, "augmentation": Augmentation}
    for group, kind in groups.items():
        for each in fields(kind):
            if each.name not in ("solver", "augmentation"):
                known.register(each.name, group)
    for name in (*SOLVER_FIELDS, "solver_options"):
        known.register(name, "solver")
    parts: dict[str, dict[str, Any]] = {"fit": {}, "augmentation": {}, "solver": {}}
    for name, value in given.items():
        parts[known[name]][name] = value
    solver = {SOLVER_FIELDS.get(name, "options"): value for name, value in parts["solver"].items()}
    made = Solver(**{name: value for name, value in solver.items() if value is not None})
    return FitOptions(**parts["fit"], augmentation=Augmentation(**parts["augmentation"]), solver=made)


@dataclass(frozen=True, eq=False)
class Fitted(Closing):
    """A net that was trained: it predicts, and tells how it came about.

    Args:
        predictor: takes pictures as `prepare` makes them.
        prepare: makes the numbers of pictures.
        names: what the classes are called, in order.
        evaluation: what the last test gave, of these parameters.
        steps: what each step gave.
        tests: accuracy by the iteration after which was tested.
    """

    predictor: Predictor
    prepare: Preprocessing
    names: tuple[str, ...]
    evaluation: Evaluation
    steps: Sequence[TrainingStep]
    tests: Mapping[int, float]

    def probabilities(self, *pictures: Any) -> NDArray[np.float32]:
        """Return the probability (N, classes) of each class for each picture, see `Preprocessing`.

        Raises:
            TazzaError: a picture cannot be read.
        """
        return next(iter(self.predictor.run([self.prepare(*pictures)]).values()))

    def classify(self, *pictures: Any) -> list[str]:
        """Return the most probable class of each picture."""
        return [self.names[int(place)] for place in self.probabilities(*pictures).argmax(1)]

    def close(self) -> None:
        """Let go of the net; closing twice is allowed."""
        self.predictor.close()


def fit(
    net: str | os.PathLike[str],
    data: str | os.PathLike[str] | ArraysGiven,
    *,
    test_data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    listeners: Sequence[TrainingListener] = (),
    patience: int | None = None,
    keep_best: bool = False,
    **options: Any,
) -> Fitted:
    """Train a classifier of pictures, test it after each round, and return it.

    Args:
        net: a classifier of the zoo by name, or the path of a model to be trained on.
        data: a folder of pictures, a database, a .npz file, or arrays; see `find_source`.
        test_data: what to be tested on, where `data` bring nothing for that; else a share of them is held back.
        out: folder for the nets, `labels.txt` and `preprocessing.json`, and for the decoded pictures, which are used
            again; without it, nothing stays.
        listeners: are told how it goes, and closed in the end.
        patience: end after so many tests that were no better than the best one.
        keep_best: return and write the net of the best test, not that of the last step.
        **options: fields of `FitOptions` and `Augmentation`; `solver`, `learning_rate`, `policy`, `solver_options`.

    Raises:
        ArgumentError: an option that there is not, or that does not fit.
        NumericError: the loss became infinite, or no number.
        TazzaError: net or data are missing, broken, or do not fit each other.

    >>> images = np.random.default_rng(1).integers(0, 99, (40, 8, 8), np.uint8)
    >>> labels = np.arange(40) % 2
    >>> images[labels == 1, :4] += 150
    >>> with fit("mlp", (images, labels), epochs=5, batch_size=8, learning_rate=0.02) as fitted:
    ...     fitted.evaluation.accuracy, fitted.classify(images[0], images[1])
    (1.0, ['0', '1'])
    """
    chosen = fit_options(options)
    if patience is not None and not (is_whole(patience) and patience >= 1):
        raise ArgumentError(f"patience = {patience}", hint="1 or more tests")
    source = find_source(data, test_data)
    with ExitStack() as held:
        told = [held.enter_context(listener) for listener in listeners]
        if out is None:
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="tazza-fit-")))
        else:
            folder = Path(out)
            hint = "wait for it, or name another folder with out="
            held.enter_context(alone(folder / LOCK, f"trains into {shown(folder)}", hint))
        training = held.enter_context(PictureTraining(net, source, folder, chosen))
        loop = _Loop(training, told, patience)
        loop.run()
        best = training.best() if keep_best else None
        evaluation = training.evaluate(workspace=best)
        for listener in told:
            listener.finished(training.trainer, evaluation)
        if out is not None:
            training.export(folder, best)
        held_by = training.workspace if best is None else best
        return Fitted(
            _predictor(training, held_by),
            training.data.prepare,
            training.data.names,
            evaluation,
            loop.steps,
            loop.tests,
        )


def _predictor(training: PictureTraining, workspace: Workspace) -> Predictor:
    nets = export_nets(training.core(), workspace, outputs=[SOFTMAX], parameters=training.nets.parameters)
    return load(*nets)


def _accuracy(training: PictureTraining, iteration: int) -> float:
    del iteration
    return training.evaluate().accuracy


class _Loop:
    """The steps of a training, and a test after each round; the checkpoint of the best test lies in the folder."""

    def __init__(self, training: PictureTraining, listeners: Sequence[TrainingListener], patience: int | None) -> None:
        self.steps: list[TrainingStep] = []
        self.tests: dict[int, float] = {}
        self._training, self._listeners, self._patience = training, listeners, patience

    def run(self) -> None:
        """Train to the end, or until tests say that more is of no use."""
        training, trainer = self._training, self._training.trainer
        for listener in self._listeners:
            listener.began(trainer)
        for step in training.steps():
            self.steps.append(step)
            for listener in self._listeners:
                listener.stepped(trainer, step)
            if training.ends_round(step.iteration) or step.iteration == training.iterations:
                self._test(step.iteration)
            if self._patience is not None and waited_since_best(self.tests) >= self._patience:
                return

    def _test(self, iteration: int) -> None:
        training = self._training
        self.tests[iteration] = accuracy = _accuracy(training, iteration)
        if best_test(self.tests) == iteration:
            training.trainer.save(training.folder / BEST)
        for listener in self._listeners:
            listener.tested(training.trainer, {"test_accuracy": accuracy})
