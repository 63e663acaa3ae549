"""Messages for people: the standard `logging` under the name "tazza".

Modules log to `logging.getLogger(__name__)`, a child of `logger`. The level is the application's business unless the
flag `caffe2_log_level` was given. `logger` carries no NullHandler: with one, a warning would be lost in a program
that never set logging up, and a fallback nobody hears of is a silent one; without one, Python prints warnings and
errors to stderr. `global_init` adds a handler with time and level that keeps quiet as soon as the application has a
handler of its own.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import TextIO

from tazza.runtime.flags import flag
from tazza.runtime.fork import freed_in_child

logger = logging.getLogger("tazza")

LOG_LEVEL = flag(
    "caffe2_log_level",
    1,
    "least severity that is logged: 0 info, 1 warning, 2 error, 3 fatal, -n details, the more the larger n",
)

FORMAT = "[%(levelname).1s %(asctime)s %(name)s] %(message)s"

_lock = freed_in_child(threading.Lock())


def severity(level: int) -> int:
    """Return the level of `logging` for Caffe2's: 0 info, 1 warning, 2 error, 3 or more fatal, -n verbose.

    >>> severity(1) == logging.WARNING, severity(-1) == logging.DEBUG, severity(-2)
    (True, True, 9)
    """
    if level >= 0:
        return min(logging.INFO + 10 * level, logging.CRITICAL)
    return max(logging.DEBUG + 1 + level, 1)


def configure() -> None:
    """Bring `logger` in line with the flag, and let messages be seen if the application set no logging up.

    Safe to call again. Called by `global_init`.
    """
    if LOG_LEVEL.given:
        logger.setLevel(severity(LOG_LEVEL.value))
    with _lock:
        if not any(isinstance(handler, _StderrHandler) for handler in logger.handlers):
            logger.addHandler(_StderrHandler())


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Prints to what `sys.stderr` is at that moment, unless the root logger has handlers."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(FORMAT))
        self.addFilter(lambda record: not logging.getLogger().handlers)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
