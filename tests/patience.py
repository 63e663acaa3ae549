"""How tests wait for other threads and processes: for a condition, for as long as a busy machine may take."""

from __future__ import annotations

import time
from collections.abc import Callable

LONG_S = 60.0
"""What has not come about by then never does."""


def wait_until(holds: Callable[[], object]) -> None:
    """Return when a condition holds that other threads bring about.

    Raises:
        AssertionError: It does not hold after `LONG_S`.

    >>> wait_until(lambda: True)
    """
    end_s = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < end_s, "it never came about"
        time.sleep(1e-3)
