"""Ctrl-C and SIGTERM while something learns: they wait for the end of a step, so that it can go on from there later.

    with Interruption() as interruption:
        while ...:
            with interruption.held():
                step()          # a first signal is raised behind it, a second one at once

Signals are handled in the main thread alone; in another one, and where whoever started the process has them ignored,
nothing changes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STATUS_OF_SIGNAL = 128
"""What shells add to the number of a signal for the exit status of a program that it ended."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end."""

    def __init__(self, number: int) -> None:
        """See `status`."""
        super().__init__(signal.Signals(number).name)
        self.status = STATUS_OF_SIGNAL + number
        """Exit status of the program."""


class Interruption:
    """Takes the signals in a `with` block, and gives them back at its end."""

    def __init__(self) -> None:
        """Nothing is taken yet."""
        self.within = False
        """Whether a held block was begun and not ended: what it did is not whole."""
        self._waiting: int | None = None
        self._former: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._former[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former.clear()

    @contextmanager
    def held(self) -> Generator[None]:
        """Let a first signal wait for the end of the block.

        Raises:
            Interrupted: at the end, when one came.
        """
        self.within = True
        yield
        self.within = False
        if self._waiting is not None:
            number, self._waiting = self._waiting, None
            raise Interrupted(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.within and self._waiting is None:
            self._waiting = number
            return
        raise Interrupted(number)
