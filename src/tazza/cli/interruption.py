"""Ctrl-C and SIGTERM while something learns: they wait for the end of a step, so that it can go on from there later.

    with Interruption() as interruption:
        while ...:
            with interruption.held():
                step()          # a first signal is raised behind it, a second one at once

Signals are handled in the main thread alone; in another one, and where whoever started the process has them ignored,
nothing changes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from tazza.cli import STATUS_OF_SIGNAL, end_at_once

SIGNALS = (signal.SIGINT, signal.SIGTERM)


PATIENCE_S = 2.0
"""How long the main thread may take to end in order, behind a second signal."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end."""

    def __init__(self, number: int) -> None:
        """See `status`."""
        super().__init__(signal.Signals(number).name)
        self.status = STATUS_OF_SIGNAL + number
        """Exit status of the program."""


def end_at_second_signal() -> None:
    """Let a second SIGINT or SIGTERM end the process in any case.

    Python hears of signals between its own instructions, so not while the main thread is within a long call of a
    kernel. A thread that waits for them does; it ends the process when they came twice and nothing followed.
    """
    ear, mouth = os.pipe()
    os.set_blocking(mouth, False)
    signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(ear,), name="tazza-signals", daemon=True).start()


@contextmanager
def raised_signals() -> Generator[None]:
    """Let signals that would end the process at once raise `Interrupted` in a block instead."""
    taken = [number for number in SIGNALS if signal.getsignal(number) is end_at_once]
    try:
        for number in taken:
            signal.signal(number, _raise)
        yield
    finally:
        for number in taken:
            signal.signal(number, end_at_once)


def _raise(number: int, frame: FrameType | None) -> None:
    del frame
    raise Interrupted(number)


def _listen(ear: int) -> None:
    came = 0
    while data := os.read(ear, 1):
        number = data[0]
        if number not in SIGNALS or signal.getsignal(number) == signal.SIG_IGN:
            continue
        came += 1
        if came == 2:
            time.sleep(PATIENCE_S)
            os.write(2, b"interrupted: ended within a kernel\n")
            os._exit(STATUS_OF_SIGNAL + number)


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
