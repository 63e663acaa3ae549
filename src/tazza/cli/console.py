"""The console that commands print on."""

from __future__ import annotations

from rich.console import Console

WIDTH_OF_FILES = 200
"""Columns of tables that go to a file or another program, where nothing wraps lines."""


def make_console() -> Console:
    """Return a console as wide as the terminal, or wide enough for whole tables where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_OF_FILES)
