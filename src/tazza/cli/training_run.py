"""What every `tazza train` does: steps with progress, tests between rounds, checkpoints, and an end by Ctrl-C.

What differs is said by a class of its own: what is fed before a step, what is tested after a round, and what is written
at the end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import ClassVar, Literal

from rich.console import Console

from tazza.cli.console import left_out, print_text
from tazza.cli.history import History
from tazza.cli.interruption import Interruption
from tazza.cli.progress import Display, Pace, diverged
from tazza.cli.ranks import check_ranks, rank_listeners
from tazza.cli.train_folder import CHECKPOINT, CURVES, HISTORY, SETTINGS, check_end
from tazza.cli.train_settings import StoredSettings
from tazza.models.evaluation import Evaluation
from tazza.models.listener import TrainingListener
from tazza.models.training import Trainer
from tazza.runtime.files import names_in

EVENTS = "tensorboard"
"""Folder of the files for TensorBoard, in that of a training."""


def listeners_of(settings: StoredSettings, out: Path) -> list[TrainingListener]:
    """Return who is told how a training of a command goes: the only place where they are chosen.

    Args:
        settings: what the training was asked for.
        out: its folder, for what they write.
    """
    from tazza.cli.class_table import ClassTable
    from tazza.models.evaluation_files import EvaluationFiles
    from tazza.models.step_times import StepTimes

    listeners: list[TrainingListener] = [StepTimes(out), EvaluationFiles(out), ClassTable(), *rank_listeners()]
    if settings.tensorboard:
        from tazza.models.tensorboard import TensorBoard

        listeners.append(TensorBoard(out / EVENTS))
    return listeners


class TrainingRun:
    """One training: what it gave so far, and where that goes."""

    command: str
    """What people type for it."""
    tested: ClassVar[str]
    """The column of the history for what a test gives."""

    def __init__(self, console: Console, pace: Pace, out: Path, *, iterations: int, every: int) -> None:
        """Begin without steps; `every` so many iterations the checkpoint and the history are written."""
        self.history = History(self.tested)
        self.pace = pace
        self.out = out
        self.iterations = iterations
        self._console = console
        self._every = every
        self._listeners: Sequence[TrainingListener] = ()

    # -- what a training says of itself --------------------------------------------------------------------------------

    def feed(self, trainer: Trainer) -> None:
        """Give the net what the next step needs, where it does not read that itself."""

    def test_round(self, trainer: Trainer) -> str | None:
        """Test and return what to say, if a round through the data has ended; None: there is nothing to say."""
        raise NotImplementedError

    def gives_up(self) -> bool:
        """Whether the tests so far say that more steps are of no use."""
        return False

    def finish(self, trainer: Trainer, started: float) -> Evaluation | None:
        """Test, write and draw the results, and print them; return what the test gave, where it classifies.

        `started` is by `time.perf_counter`.
        """
        raise NotImplementedError

    # -- what is the same for all --------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Print a line."""
        print_text(self._console, text)

    def say_written(self) -> None:
        """Print the names of what lies in the folder."""
        names = [name for name in names_in(self.out) if not name.startswith(".")]
        self.say(f"written to '{self.out}': {', '.join(names)}")

    def note_test(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
        """Keep what a test gave, the most telling figure first, and tell it to all who listen."""
        self.history.tests[trainer.iteration] = next(iter(figures.values()))
        for listener in self._listeners:
            listener.tested(trainer, figures)

    def draw_curves(self, title: str, *, tests: Literal["accuracy", "loss"] | None = None) -> None:
        """Draw what the steps gave, and the tests between them where these gave one of both."""
        from tazza.observers.drawing import draw_curves

        loss = self.history.curve(lambda step: step.loss)
        if loss is None:
            return
        tested = self.history.tested()
        with self.left_out("picture"):
            draw_curves(
                self.out / CURVES,
                loss,
                self.history.curve(lambda step: step.accuracy),
                tested=tested if tests == "accuracy" else None,
                tested_loss=tested if tests == "loss" else None,
                rate=self.history.rates(),
                title=title,
            )

    def show_accuracy(self, trainer: Trainer, tested: Evaluation, started: float, *, beside: str = "") -> None:
        """Draw the curves of a training that sorts pictures, and print what it came to; `started` as for `finish`."""
        self.draw_curves(f"test accuracy {tested.accuracy:.2%}", tests="accuracy")
        seconds = time.perf_counter() - started
        self.say(
            f"test accuracy {tested.accuracy:.2%} ({tested.correct} of {tested.count}){beside},"
            f" {self.pace.units_per_s:.0f} images/s, {trainer.iteration} iterations, {seconds:.1f} s in all"
        )

    def left_out(self, what: str) -> AbstractContextManager[None]:
        """Return a block that draws: where the library for it is missing, why there is no picture is said."""
        return left_out(self._console, what)

    def go(self, trainer: Trainer, settings: StoredSettings, started: float, *, resume: bool) -> None:
        """Train to the end, from where a checkpoint left off with `resume`.

        Raises:
            TazzaError: anything that the user can mend.
            KeyboardInterrupt: it was interrupted.
        """
        check_ranks(trainer)
        if resume:
            trainer.load(self.out / CHECKPOINT)
            check_end(trainer.iteration, self.iterations, self.out)
            settings.write(self.out / SETTINGS)
            self.history = History.read(self.out / HISTORY, trainer.iteration, self.tested)
            self.say(f"going on after iteration {trainer.iteration} of {self.iterations}")
        with ExitStack() as held, Interruption() as interruption:
            try:
                self._listeners = [held.enter_context(each) for each in listeners_of(settings, self.out)]
                for listener in self._listeners:
                    listener.began(trainer)
                self._learn(trainer, interruption)
                evaluation = self.finish(trainer, started)
                for listener in self._listeners:
                    with self.left_out("pictures"):
                        listener.finished(trainer, evaluation)
                self.say_written()
                self._remark()
            except KeyboardInterrupt:
                self._leave(trainer, whole=not interruption.within)
                raise

    def _learn(self, trainer: Trainer, interruption: Interruption) -> None:
        steps = trainer.run(self.iterations)
        with Display(self._console, self.pace, trainer.iteration) as display:
            self._test(trainer, display)  # what an interrupted training came to no more
            while trainer.iteration < self.iterations and not self.gives_up():
                before = time.perf_counter()
                with interruption.held():
                    self.feed(trainer)
                    step = next(steps)
                    self.history.steps.append(step)
                    due = step.iteration == self.iterations or step.iteration % self._every == 0
                    if due:
                        self._keep(trainer)
                    for listener in self._listeners:
                        listener.stepped(trainer, step)
                self.pace.add(step, time.perf_counter() - before)
                display.show(step)
                self._test(trainer, display)
                if due and step.iteration in self.history.tests:
                    self.history.write(self.out / HISTORY)
        if trainer.iteration < self.iterations:
            self._keep(trainer)

    def _keep(self, trainer: Trainer) -> None:
        """Write down how far the training came."""
        # The history first: what goes on from a checkpoint drops steps behind it, and cannot have back those before.
        self.history.write(self.out / HISTORY)
        trainer.save(self.out / CHECKPOINT)

    def _test(self, trainer: Trainer, display: Display) -> None:
        if trainer.iteration != self.iterations and trainer.iteration not in self.history.tests:  # else `finish` does
            told = self.test_round(trainer)
            if told is not None:
                display.note(told)

    def _remark(self) -> None:
        remark = diverged([step.loss for step in self.history.steps])
        if remark is not None:
            self.say(remark)

    def _leave(self, trainer: Trainer, *, whole: bool) -> None:
        """Say how an interrupted training goes on, and write down how far it came, unless that was within a step."""
        if whole:
            self._keep(trainer)
        self.say(f"interrupted; go on with: {self.command} --out '{self.out}' --resume")
