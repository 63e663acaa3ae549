"""A table of classes at the end of a training: those that the last test found worst."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tazza.cli.console import make_console
from tazza.models.confusion import ClassFigures, Confusion
from tazza.models.evaluation import Evaluation
from tazza.models.evaluation_files import PER_CLASS
from tazza.models.listener import TrainingListener
from tazza.models.training import Trainer

SHOWN_MAX = 10
"""Classes that are shown."""
NAME_MAX = 20
"""Characters of a name, so that a row fits into 80 columns."""


class ClassTable(TrainingListener):
    """Prints the table when a training has ended."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console

    def finished(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        """Print the table, where the last test classified."""
        del trainer
        if evaluation is not None:
            print_classes(make_console() if self._console is None else self._console, evaluation.confusion)


def print_classes(console: Console, confusion: Confusion) -> None:
    """Print the figures of the classes that were found worst, those first; nothing where all labels were found."""
    worst = [one for one in confusion.worst_first() if one.recall is not None and _is_wrong(one)][:SHOWN_MAX]
    if not worst:
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(f"class ({len(worst)} of {confusion.classes})", no_wrap=True)
    for title in ("images", "found", "precision"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("mostly taken for", no_wrap=True)
    for one in worst:
        other = "" if one.taken_for is None else f"{_short(one.taken_for)} ({one.taken_for_count})"
        cells = (_short(one.name), f"{one.count}", _share(one.recall), _share(one.precision), other)
        table.add_row(*map(escape, cells))
    console.print(f"the classes that are hardest to find (all: {PER_CLASS})", highlight=False)
    console.print(table)


def _is_wrong(one: ClassFigures) -> bool:
    return one.correct < one.count or one.correct < one.predicted


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"
