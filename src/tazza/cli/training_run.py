"""What every `tazza train` does: steps with progress, tests between rounds, checkpoints, and an end by Ctrl-C.

What differs is said by a class of its own: what is fed before a step, what is tested after a round, and what is written
at the end.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

from rich.console import Console

from tazza.cli.console import print_text
from tazza.cli.history import History
from tazza.cli.interruption import Interruption
from tazza.cli.progress import Display, Pace, diverged
from tazza.cli.ranks import check_ranks
from tazza.cli.train_folder import CHECKPOINT, HISTORY, SETTINGS, check_end
from tazza.cli.train_settings import StoredSettings
from tazza.models.training import Trainer


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

    # -- what a training says of itself --------------------------------------------------------------------------------

    def feed(self, trainer: Trainer) -> None:
        """Give the net what the next step needs, where it does not read that itself."""

    def test_round(self, trainer: Trainer) -> str | None:
        """Test and return what to say, if a round through the data has ended; None: there is nothing to say."""
        raise NotImplementedError

    def finish(self, trainer: Trainer, started: float) -> None:
        """Test, write and draw the results, and print them; `started` is by `time.perf_counter`."""
        raise NotImplementedError

    # -- what is the same for all --------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Print a line."""
        print_text(self._console, text)

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
        with Interruption() as interruption:
            try:
                self._learn(trainer, interruption)
                self.finish(trainer, started)
                self._remark()
            except KeyboardInterrupt:
                self._leave(trainer, whole=not interruption.within)
                raise

    def _learn(self, trainer: Trainer, interruption: Interruption) -> None:
        steps = trainer.run(self.iterations, checkpoint=self.out / CHECKPOINT, every=self._every)
        with Display(self._console, self.pace, trainer.iteration) as display:
            self._test(trainer, display)  # what an interrupted training came to no more
            while trainer.iteration < self.iterations:
                before = time.perf_counter()
                with interruption.held():
                    self.feed(trainer)
                    step = next(steps)
                    self.history.steps.append(step)
                self.pace.add(step, time.perf_counter() - before)
                display.show(step)
                self._test(trainer, display)
                if step.iteration == self.iterations or step.iteration % self._every == 0:
                    self.history.write(self.out / HISTORY)

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
            trainer.save(self.out / CHECKPOINT)
            self.history.write(self.out / HISTORY)
        self.say(f"interrupted; go on with: {self.command} --out '{self.out}' --resume")
