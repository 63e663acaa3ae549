"""`tazza train FILE.py`: the task that a program holds, with progress, checkpoints, a history and files of its nets."""

from __future__ import annotations

import dataclasses
import inspect
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from rich.console import Console

from tazza.cli.console import make_console
from tazza.cli.progress import Pace
from tazza.cli.ranks import TaskJob, follow_task, follows, share_task
from tazza.cli.train_folder import CHECKPOINT, HISTORY, OF_EVERY, SETTINGS, remove_results, training_folder
from tazza.cli.train_settings import StoredSettings
from tazza.cli.training_run import TrainingRun
from tazza.data_class import dataclass
from tazza.errors import ArgumentError, FileError
from tazza.interop import save_nets
from tazza.interop.model_folder import INIT, PREDICT
from tazza.models.task import Learning, TrainingTask
from tazza.models.training import Trainer
from tazza.nets import NETS
from tazza.registry import Registry
from tazza.runtime.files import kind_of, resolved, shown, write_bytes_atomically
from tazza.runtime.modules import import_file

FIGURES = "figures.json"
RESULTS = (*OF_EVERY, FIGURES)
"""What a training leaves, beside its settings."""
TESTS = 10
"""Tests of a training, the last one included; as many checkpoints."""
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class TaskSettings(StoredSettings):
    """Options of `tazza train FILE.py`, see its help. None stands for what follows from others."""

    options: dict[str, str] = field(default_factory=dict[str, str])
    iterations: int | None = None
    seed: int = 1
    net_type: str | None = None
    workers: int | None = None
    checkpoint_every: int | None = None

    def updated(self, given: Mapping[str, Any]) -> TaskSettings:
        """Return the settings with what was given; options of the task by name."""
        options = {**self.options, **given.get("options", {})}
        return dataclasses.replace(self, **{**given, "options": options})


# -- the task of a program ---------------------------------------------------------------------------------------------


def task_of(path: Path, options: Mapping[str, str]) -> TrainingTask:
    """Return the task that a program declares, made with options by name.

    Raises:
        FileError: there is no such program.
        InitError: it fails as it is imported.
        ArgumentError: it declares no task, or several; an option that the task does not have, or another kind of value.
    """
    if kind_of(path) != "file":
        raise FileError(f"there is no program {shown(path)}", hint="name a .py file that declares a task")
    module = import_file(resolved(path))
    found = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, TrainingTask) and kind.__module__ == module.__name__
    ]
    whole = [kind for kind in found if not inspect.isabstract(kind)]
    if len(whole) != 1:
        names = ", ".join(kind.__name__ for kind in whole) if whole else "none"
        raise ArgumentError(
            f"{shown(path)} declares {names} of the tasks that can be trained, and one is needed",
            hint="derive one class from tazza.models.task.TrainingTask, with all of its methods; a builder of a"
            " classifier is trained with --data",
        )
    return whole[0](**_values(whole[0], options))


def _values(kind: type[TrainingTask], options: Mapping[str, str]) -> dict[str, Any]:
    known: Registry[str, Any] = Registry(f"option of {kind.__name__}")
    hints = get_type_hints(kind)
    for each in dataclasses.fields(kind):
        known.register(each.name, hints[each.name])
    return {name: _value(name, text, known[name]) for name, text in options.items()}


def _value(name: str, text: str, kind: Any) -> Any:
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    for each in (bool, int, float, Path, str):
        if each in kinds:
            try:
                return _truth(text) if each is bool else each(text)
            except ValueError as error:
                raise ArgumentError(f"{name}={text!r} is no {each.__name__}") from error
    raise ArgumentError(f"{name} cannot be set by a text", hint="bool, int, float, str and Path can")


def _truth(text: str) -> bool:
    if text.lower() not in TRUE + FALSE:
        raise ValueError(text)
    return text.lower() in TRUE


def options_of(words: Sequence[str]) -> dict[str, str]:
    """Return options by name.

    >>> options_of(["hidden=128", "data=a=b"])
    {'hidden': '128', 'data': 'a=b'}

    Raises:
        ArgumentError: a word without `=`, or a name that comes twice.
    """
    found: dict[str, str] = {}
    for word in words:
        name, mark, text = word.partition("=")
        if not mark or name in found:
            wrong = "is given twice" if mark else "has no value"
            raise ArgumentError(f"--set {word}: {name!r} {wrong}", hint="--set NAME=VALUE, once for each name")
        found[name] = text
    return found


# -- the training ------------------------------------------------------------------------------------------------------


def train_task(program: Path, given: Mapping[str, Any], out: Path, *, resume: bool, overwrite: bool) -> None:
    """Train the task of a program as the options say, and write everything into `out`.

    Args:
        program: a Python file that declares one task; it is run.
        given: options by name.
        out: the folder.
        resume: go on with the training that is there; from its beginning where it has no checkpoint yet.
        overwrite: replace the training that is there.

    Raises:
        TazzaError: anything that the user can mend.
        KeyboardInterrupt: it was interrupted.
    """
    if follows():
        follow_task(program)
        return
    started = time.perf_counter()
    with training_folder(out, RESULTS, resume=resume, overwrite=overwrite):
        before = TaskSettings.read(out / SETTINGS) if resume else TaskSettings()
        settings = before.updated(given)
        task = task_of(program, settings.options)
        if settings.net_type is not None:
            NETS[settings.net_type]
        iterations = task.steps() if settings.iterations is None else settings.iterations
        goes_on = resume and kind_of(out / CHECKPOINT) is not None
        job = TaskJob.made(settings, out / CHECKPOINT if goes_on else None, iterations=iterations)
        if not goes_on:
            remove_results(out, RESULTS)
            settings.write(out / SETTINGS)
        with Learning(
            share_task(task, job), seed=settings.seed, net_type=settings.net_type, workers=settings.workers
        ) as learning:
            run = _Run(make_console(), program, learning, settings, iterations, out)
            run.go(learning.trainer, settings, started, resume=goes_on)


class _Run(TrainingRun):
    """A task, whose program feeds and tests it."""

    tested = "tested"

    def __init__(
        self, console: Console, program: Path, learning: Learning, settings: TaskSettings, iterations: int, out: Path
    ) -> None:
        self._each = max(1, iterations // TESTS)
        every = self._each if settings.checkpoint_every is None else settings.checkpoint_every
        super().__init__(console, Pace(1, iterations, "steps"), out, iterations=iterations, every=every)
        self.command = f"tazza train {program}"
        self._learning = learning

    def feed(self, trainer: Trainer) -> None:
        """Give the net the batch of the next iteration."""
        del trainer
        self._learning.feed()

    def test_round(self, trainer: Trainer) -> str | None:
        """Test now and then."""
        if not trainer.iteration or trainer.iteration % self._each:
            return None
        name, value = next(iter(self._measured(trainer).items()))
        return f"iteration {trainer.iteration}  {self.pace}  {_told({name: value})}"

    def _measured(self, trainer: Trainer) -> dict[str, float]:
        figures = self._learning.tested()
        self.note_test(trainer, figures)
        return figures

    def finish(self, trainer: Trainer, started: float) -> None:
        """Test, write figures and nets, draw the picture, and print the results."""
        figures = self._measured(trainer)
        self.history.write(self.out / HISTORY)
        write_bytes_atomically(self.out / FIGURES, (json.dumps(figures, indent=1) + "\n").encode())
        self._export()
        self.draw_curves(_told(figures))
        seconds = time.perf_counter() - started
        pace = f"{self.pace.units_per_s:.1f} steps/s"
        self.say(f"{_told(figures)}, {pace}, {trainer.iteration} iterations, {seconds:.1f} s in all")

    def _export(self) -> None:
        predictor = self._learning.task.predictor
        if predictor is not None:
            kept = [name for name in predictor.parameters if name in self._learning.parameters]
            save_nets(self.out / INIT, self.out / PREDICT, predictor, self._learning.workspace, parameters=kept)


def _told(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in figures.items())


def _short(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() and abs(value) >= 100 else f"{value:.5g}"
