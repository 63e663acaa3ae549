"""A callback that runs when a block is left, unless the work was completed."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class ScopeGuard:
    """Runs a callback once on the way out of a `with` block, by whatever way, unless it is released before.

    Errors of the block go on after the callback; an error of the callback is raised, with the block's as its context.

    Example:
        >>> with ScopeGuard(lambda: print("undone")) as guard:
        ...     print("half done")
        half done
        undone
        >>> with ScopeGuard(lambda: print("undone")) as guard:
        ...     guard.release()
    """

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def release(self) -> None:
        """Forget the callback: the work is complete, nothing needs to be undone."""
        self._callback = None

    def __enter__(self) -> ScopeGuard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


def scope_guard(callback: Callable[[], object]) -> ScopeGuard:
    """Return a guard that runs `callback` when its `with` block is left."""
    return ScopeGuard(callback)
