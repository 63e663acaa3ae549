"""What `tazza predict` prints of each image: a table, lines, JSON or CSV; and pictures that a net makes.

JSON has an object a line: `image`, `row` where a file holds several, and `classes` (each with `class`, `label`,
`score`), `picture` or `error`. CSV has a line for each class, best first, or for each picture.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from rich.console import Console

from tazza.cli.console import print_exactly, print_text
from tazza.cli.table import Column, Row, print_table
from tazza.errors import ArgumentError
from tazza.images.classes import Classes, Image
from tazza.runtime.csv_lines import csv_lines

COLUMNS = (Column("image"), Column("class"), Column("score", number=True))
ROWS_OF_A_TABLE = 600
"""A table is printed when it has so many rows: it lies in memory until then."""


class Results(ABC):
    """Takes what comes of images, one by one; `end` prints what is left."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @abstractmethod
    def classes(self, found: Classes) -> None:
        """Take the classes of an image."""

    @abstractmethod
    def picture(self, image: Image, path: Path) -> None:
        """Take note of a picture that was written."""

    def failed(self, image: Image, reason: str) -> None:
        """Take note of an image that nothing came of; people are told elsewhere."""
        del image, reason

    def flush(self) -> None:
        """Print what has come so far, where it need not wait for more."""
        self.console.file.flush()

    def end(self) -> None:
        """Print what is left."""
        self.flush()


class Lines(Results):
    """A line for each image."""

    def classes(self, found: Classes) -> None:
        """Print the line of an image."""
        print_text(
            self.console,
            f"{found.image}: " + "  ".join(f"{guess.name} ({found.score(guess)})" for guess in found.guesses),
        )

    def picture(self, image: Image, path: Path) -> None:
        """Print where the picture is."""
        print_text(self.console, f"{image}: {Image(path)}")


class Rows(Results):
    """A table: a row for each class of each image."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._rows: list[tuple[str, str, str]] = []

    def classes(self, found: Classes) -> None:
        """Add the rows of an image."""
        if len(self._rows) + len(found.guesses) > ROWS_OF_A_TABLE:
            self.end()
        for place, guess in enumerate(found.guesses):
            label = "" if guess.label is None else f" {guess.label}"
            self._rows.append(
                ("" if place else str(found.image), f"{guess.number}{label}", found.score(guess)),
            )

    def picture(self, image: Image, path: Path) -> None:
        """Print where the picture is."""
        print_text(self.console, f"{image}: {Image(path)}")

    def end(self) -> None:
        """Print the table so far."""
        if not self._rows:
            return
        print_table(self.console, COLUMNS, [Row(row, "" if row[0] else "dim") for row in self._rows])
        self._rows.clear()


class Exact(Results):
    """Lines for programs, printed some at a time, which takes less time."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._lines: list[str] = []

    def flush(self) -> None:
        """Print the lines so far."""
        if self._lines:
            print_exactly(self.console, "\n".join(self._lines))
            self._lines.clear()


class JsonLines(Exact):
    """An object of JSON for each image, one a line."""

    def classes(self, found: Classes) -> None:
        """Print the classes of an image."""
        self._lines.append(json.dumps(found.fields()))

    def picture(self, image: Image, path: Path) -> None:
        """Print where the picture is."""
        self._print(image, picture=str(path))

    def failed(self, image: Image, reason: str) -> None:
        """Print why nothing came of an image."""
        self._print(image, error=reason)

    def _print(self, image: Image, **told: Any) -> None:
        self._lines.append(json.dumps(image.fields() | told))


class CsvLines(Exact):
    """A line for each class of each image, under a head."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._begun = False

    def classes(self, found: Classes) -> None:
        """Print the lines of an image."""
        self._begin("image", "row", "rank", "class", "label", "score")
        for rank, guess in enumerate(found.guesses, 1):
            label = "" if guess.label is None else guess.label
            self._print(*self._place(found.image), rank, guess.number, label, f"{guess.score:.9g}")

    def picture(self, image: Image, path: Path) -> None:
        """Print where the picture is."""
        self._begin("image", "row", "picture")
        self._print(*self._place(image), str(path))

    @staticmethod
    def _place(image: Image) -> tuple[str, str]:
        return str(Image(image.path)), "" if image.row is None else str(image.row)

    def _begin(self, *titles: str) -> None:
        if not self._begun:
            self._print(*titles)
            self._begun = True

    def _print(self, *cells: object) -> None:
        (line,) = csv_lines([cells])
        self._lines.append(line.removesuffix("\n"))


FORMATS: dict[str, type[Results]] = {"table": Rows, "lines": Lines, "json": JsonLines, "csv": CsvLines}


def make_results(format: str | None, console: Console) -> Results:
    """Return what prints in a format; by default a table on a terminal, else lines.

    Raises:
        ArgumentError: there is no such format.
    """
    name = format if format is not None else "table" if console.is_terminal else "lines"
    if name not in FORMATS:
        raise ArgumentError(f"--format {name!r} is none", hint=f"formats: {', '.join(FORMATS)}")
    return FORMATS[name](console)
