"""The console that commands print on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from tazza.errors import UnavailableError

WIDTH_OF_FILES = 200
"""Columns of tables that go to a file or another program, where nothing wraps lines."""


def make_console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, or wide enough for whole tables where there is none."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(width=WIDTH_OF_FILES, stderr=stderr)


def print_error(console: Console, message: str) -> None:
    """Print what went wrong: at a terminal its first word is red."""
    text = Text.assemble(("error:", "bold red"), " ", message)
    console.print(text, highlight=False, soft_wrap=not console.is_terminal)


def print_text(console: Console, text: str) -> None:
    """Print text as it is: at a terminal broken between words, elsewhere line by line, for programs that read it."""
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)


def print_exactly(console: Console, text: str) -> None:
    """Print a line for programs as it is, however wide."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def left_out(console: Console, what: str) -> Generator[None]:
    """Print why what is made in the block, beside what was asked for, is left out where a library is missing."""
    try:
        yield
    except UnavailableError as error:
        print_text(console, f"no {what}: {error}")
