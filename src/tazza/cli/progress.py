"""Showing progress: a bar on a terminal, else a plain line now and then."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from tazza.cli.console import print_error, print_text
from tazza.models.training import TrainingStep

LINE_EVERY_S = 5.0
"""Seconds between plain lines."""
SHOWN_STEPS = 20
"""Loss and accuracy that are shown are means of so many steps."""


class Pace:
    """Mean loss and accuracy of the last steps, things per second, and how long the rest will take.

    A step learns from `batch_size` things, which are called `unit`.
    """

    def __init__(self, batch_size: int, iterations: int, unit: str = "images") -> None:
        self.batch_size = batch_size
        self.unit = unit
        self.iterations = iterations
        self.steps = 0
        self.seconds = 0.0
        self._last: deque[TrainingStep] = deque(maxlen=SHOWN_STEPS)

    def add(self, step: TrainingStep, seconds: float) -> None:
        """Count a step that took so many seconds."""
        self.steps += 1
        self.seconds += seconds
        self._last.append(step)

    @property
    def units_per_s(self) -> float:
        """Things learned from in a second, on average."""
        return self.steps * self.batch_size / self.seconds if self.seconds else 0.0

    @property
    def left_s(self) -> float:
        """Seconds that the other iterations will take."""
        done = self._last[-1].iteration if self._last else 0
        return (self.iterations - done) * self.seconds / self.steps if self.steps else 0.0

    def __str__(self) -> str:
        loss = sum(step.loss for step in self._last) / max(1, len(self._last))
        accuracies = [step.accuracy for step in self._last if step.accuracy is not None]
        accuracy = f"accuracy {sum(accuracies) / len(accuracies):.3f}  " if accuracies else ""
        return f"loss {loss:.4f}  {accuracy}{self.units_per_s:.0f} {self.unit}/s"


class _Shown:
    """Base of what is shown on a console: lines, or on a terminal a bar that a `with` block takes away at its end."""

    def __init__(self, console: Console, columns: Sequence[ProgressColumn], total: int | None, done: int = 0) -> None:
        self._console = console
        self._shown_at = time.monotonic()
        self._bar: Progress | None = None
        self._task = TaskID(0)
        if console.is_terminal:
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task("", total=total, completed=done)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, description: str, line: Callable[[], str]) -> None:
        """Show on the bar that so many are done, or print a line, if the last one was long enough ago."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=description)
        elif time.monotonic() - self._shown_at > LINE_EVERY_S:
            self._shown_at = time.monotonic()
            self.note(line())

    def note(self, text: str) -> None:
        """Print a line that stays."""
        print_text(self._console, text)

    def error(self, text: str) -> None:
        """Print what went wrong, on the same console."""
        print_error(self._console, text)


class Display(_Shown):
    """The progress of one training."""

    def __init__(self, console: Console, pace: Pace, done: int) -> None:
        columns = [BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn()]
        super().__init__(console, columns, pace.iterations, done)
        self._pace = pace

    def show(self, step: TrainingStep) -> None:
        """Show where the training is."""
        pace = self._pace
        self.update(
            step.iteration,
            str(pace),
            lambda: f"iteration {step.iteration}/{pace.iterations}  {pace}  {pace.left_s:.0f} s left",
        )


class Counted(_Shown):
    """How many of so many things are done."""

    def __init__(self, console: Console, what: str, total: int | None) -> None:
        super().__init__(console, [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()], total)
        self._what, self._total = what, total

    def __call__(self, done: int) -> None:
        """Show that so many are done."""
        total = "" if self._total is None else f"/{self._total}"
        self.update(done, self._what, lambda: f"{self._what} {done}{total}")


def diverged(losses: Sequence[float]) -> str | None:
    """Return what to say of a training whose loss is no lower at its end than at its beginning; None: it is lower.

    >>> print(diverged([2.0] * 20 + [1.0] * 20))
    None
    >>> diverged([2.0] * 20 + [3.0] * 20)
    'warning: the loss did not fall: 2 in the first 20 iterations, 3 in the last 20; a smaller --learning-rate may help'
    """
    count = SHOWN_STEPS
    if len(losses) < 2 * count:
        return None
    first, last = sum(losses[:count]) / count, sum(losses[-count:]) / count
    if last < first:
        return None
    fell = f"the loss did not fall: {first:.4g} in the first {count} iterations, {last:.4g} in the last {count}"
    return f"warning: {fell}; a smaller --learning-rate may help"
