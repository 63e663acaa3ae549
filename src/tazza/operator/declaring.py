"""Where a declaration stands: errors about it say file and line, since nothing has run that a traceback would show."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from tazza.errors import TazzaError

WHERE = "declared in "
OWN = "tazza.operator."


@contextmanager
def declaring() -> Generator[None]:
    """Say of an error within where the declaration stands that it is about."""
    try:
        yield
    except TazzaError as error:
        if not any(line.startswith(WHERE) for line in error.where):
            error.add_context(f"{WHERE}{declared_at()}")
        raise


def declared_at(own: str = "") -> str:
    """Return file and line of who declares something: the innermost caller outside of this package and module `own`."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] -- a traceback would be slower
    while frame is not None and (_is_own(name := frame.f_globals.get("__name__", "")) or name == own):
        frame = frame.f_back
    return "an unknown place" if frame is None else f"{frame.f_code.co_filename}, line {frame.f_lineno}"


def _is_own(module: str) -> bool:
    return module.startswith(OWN) or module == "contextlib"
