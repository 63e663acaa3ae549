"""Messages for people: the standard `logging` under the name "tazza", and two ways not to repeat oneself.

Modules log to `logging.getLogger(__name__)`, a child of `logger`. The level is the application's business unless the
flag `caffe2_log_level` was given. `logger` carries no NullHandler: with one, a warning would be lost in a program
that never set logging up, and a fallback nobody hears of is a silent one; without one, Python prints warnings and
errors to stderr. `global_init` adds a handler with time and level that keeps quiet as soon as the application has a
handler of its own.

Changing state: `_seen`, under `_lock`.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Hashable
from typing import TextIO

from tazza.errors import ArgumentError
from tazza.runtime.cache import Cache
from tazza.runtime.flags import flag
from tazza.runtime.fork import freed_in_child

logger = logging.getLogger("tazza")

LOG_LEVEL = flag(
    "caffe2_log_level",
    1,
    "least severity that is logged: 0 info, 1 warning, 2 error, 3 fatal, -n messages of vlog up to n",
)

KEYS_KEPT = 10_000  # of warn_once and log_every_n; the least recently used is forgotten, and so may be repeated
FORMAT = "[%(levelname).1s %(asctime)s %(name)s] %(message)s"

_lock = freed_in_child(threading.Lock())
_seen: Cache[Hashable, int] = Cache("messages counted", KEYS_KEPT)


def severity(level: int) -> int:
    """Return the level of `logging` for Caffe2's: 0 info, 1 warning, 2 error, 3 or more fatal, -n verbose.

    >>> severity(1) == logging.WARNING, severity(-1) == logging.DEBUG, severity(-2)
    (True, True, 9)
    """
    if level >= 0:
        return min(logging.INFO + 10 * level, logging.CRITICAL)
    return max(logging.DEBUG + 1 + level, 1)


def set_level(level: int) -> None:
    """Log messages of Caffe2's severity `level` and above; also sets the flag `caffe2_log_level`."""
    LOG_LEVEL.set(level)
    logger.setLevel(severity(level))


def configure() -> None:
    """Bring `logger` in line with the flag, and let messages be seen if the application set no logging up.

    Safe to call again. Called by `global_init`.
    """
    if LOG_LEVEL.given:
        logger.setLevel(severity(LOG_LEVEL.value))
    with _lock:
        if not any(isinstance(handler, _StderrHandler) for handler in logger.handlers):
            logger.addHandler(_StderrHandler())


def vlog(degree: int, message: str, *values: object) -> None:
    """Log a detail of verbosity `degree` (1 or more); it shows when the log level is `-degree` or lower.

    Raises:
        ArgumentError: a degree below 1.
    """
    if degree < 1:
        raise ArgumentError(f"vlog takes a degree >= 1, got {degree}", hint="log it with logger.info instead")
    logger.log(severity(-degree), message, *values, stacklevel=2)


def warn_once(key: Hashable, message: str, *values: object) -> bool:
    """Log a warning unless one with this key was logged before in the process; return whether it was logged.

    `message % values` is what is shown, as in `logging`.
    """
    first = _count(("warn_once", key)) == 0
    if first:
        logger.warning(message, *values, stacklevel=2)
    return first


def log_every_n(n: int, key: Hashable, message: str, *values: object, level: int = logging.INFO) -> bool:
    """Log the first of every `n` calls with this key, at a level of `logging`; return whether it was logged.

    Raises:
        ArgumentError: an `n` below 1.
    """
    if n < 1:
        raise ArgumentError(f"log_every_n takes n >= 1, got {n}", hint="use n=1 to log every call")
    due = _count(("log_every_n", key)) % n == 0
    if due:
        logger.log(level, message, *values, stacklevel=2)
    return due


def _count(key: Hashable) -> int:
    """Return how often the key was counted before."""
    with _lock:
        before = _seen.get(key) or 0
        _seen.put(key, before + 1)
        return before


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Prints to what `sys.stderr` is at that moment, unless the root logger has handlers."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(FORMAT))
        self.addFilter(lambda record: not logging.getLogger().handlers)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
