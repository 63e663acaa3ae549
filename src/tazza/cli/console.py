"""The console that commands print on."""

from __future__ import annotations

from rich.console import Console

WIDTH_OF_FILES = 200
"""Columns of tables that go to a file or another program, where nothing wraps lines."""


def make_console() -> Console:
    """Return a console as wide as the terminal, or wide enough for whole tables where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_OF_FILES)


def print_text(console: Console, text: str) -> None:
    """Print text as it is: at a terminal broken between words, elsewhere line by line, for programs that read it."""
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)
