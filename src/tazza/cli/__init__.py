"""The `tazza` command. Nothing below this package is imported before the command that needs it runs."""

from __future__ import annotations

import os
import signal
from types import FrameType

STATUS_OF_SIGNAL = 128
"""What shells add to the number of a signal for the exit status of a program that it ended."""


def main() -> None:
    """Run the command line of the process; errors of tazza end it with their message and status 1.

    SIGINT and SIGTERM end it with one word and the status that shells have for them: at once before a command runs, by
    an exception from then on.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end_at_once)
    from tazza.cli.interruption import end_at_second_signal

    end_at_second_signal()
    from tazza.cli.app import app

    app()


def end_at_once(number: int, frame: FrameType | None) -> None:
    """End the process: nothing has begun that would have to end in order, and imports do not bear an exception."""
    del frame
    os.write(2, b"interrupted\n")
    os._exit(STATUS_OF_SIGNAL + number)
