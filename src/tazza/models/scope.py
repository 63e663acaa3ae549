"""Name scopes: a prefix for the blobs that are named inside.

The scope belongs to the running thread or task, like `device_scope`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

SEPARATOR = "/"

_current: ContextVar[str] = ContextVar("tazza_name_scope", default="")


def current_scope() -> str:
    """Return the prefix of the innermost scope with its trailing separator, or nothing outside of all scopes."""
    return _current.get()


@contextmanager
def name_scope(prefix: str, *, reset: bool = False) -> Generator[str, None, None]:
    """Put `prefix/` in front of the names of blobs inside, below the outer scope; with `reset` in place of it.

    Nothing is cleaned: a prefix that ends in a separator gives two. An empty prefix adds nothing.

    >>> with name_scope("tower"), name_scope("conv"):
    ...     current_scope()
    'tower/conv/'
    """
    outer = "" if reset else _current.get()
    token = _current.set(outer + prefix + SEPARATOR if prefix else outer)
    try:
        yield _current.get()
    finally:
        _current.reset(token)
