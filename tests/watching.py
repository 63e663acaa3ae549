"""What a piece of code asks of the system: files that it opens, processes, connections; by Python's audit events.

A hook of `sys.addaudithook` stays until the process ends, so that there is one, which notes nothing unless asked.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

OUTSIDE = ("open", "os.", "shutil.", "socket.", "subprocess.", "tempfile.", "ctypes.dlopen", "urllib.", "mmap.")
"""Beginnings of the names of events that reach beyond the process."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_notes: list[list[tuple[str, tuple[Any, ...]]]] = []


def _note(event: str, args: tuple[Any, ...]) -> None:
    if _notes and event.startswith(OUTSIDE):
        for notes in _notes:
            notes.append((event, args))


sys.addaudithook(_note)


@contextmanager
def watched() -> Generator[list[tuple[str, tuple[Any, ...]]]]:
    """Give the list of events that reach beyond the process, with their arguments, as long as the block runs."""
    notes: list[tuple[str, tuple[Any, ...]]] = []
    _notes.append(notes)
    try:
        yield notes
    finally:
        _notes.remove(notes)


def written(notes: list[tuple[str, tuple[Any, ...]]]) -> list[str]:
    """Return the paths that were opened for writing."""
    return [str(args[0]) for event, args in notes if event == "open" and isinstance(args[2], int) and args[2] & WRITING]
