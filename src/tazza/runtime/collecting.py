"""Work that makes thousands of objects which stay: garbage is collected behind it, not in the middle."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def uncollected(function: Callable[P, R]) -> Callable[P, R]:
    """Let the garbage collector rest while a function runs, in all threads; what nobody refers to goes at once anyway.

    The collector looks at what was made last whenever 700 objects came, and at all there are when these have grown by a
    quarter. Making a net, where nearly all of them stay, took a tenth longer for that.

    >>> uncollected(gc.isenabled)(), gc.isenabled()
    (False, True)
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        collects = gc.isenabled()
        try:
            gc.disable()
            return function(*args, **kwargs)
        finally:
            if collects:
                gc.enable()

    return run
