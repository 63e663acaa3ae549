"""Arguments that helpers get inside a `with`."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_threadlocal_scope = threading.local()


@contextmanager
def arg_scope(single_helper_or_list: Any, **kwargs: Any) -> Generator[None, None, None]:
    """Give a helper, or each of a list of them, these arguments."""
    given: list[Any] = [single_helper_or_list]
    if isinstance(single_helper_or_list, list):
        given = [*single_helper_or_list]
    assert all(callable(helper) for helper in given), (
        "arg_scope is only supporting single or a list of helper functions."
    )
    outer = get_current_scope()
    inner = {name: dict(arguments) for name, arguments in outer.items()}
    for helper in given:
        inner.setdefault(helper.__name__, {}).update(kwargs)
    _threadlocal_scope.current_scope = inner
    try:
        yield
    finally:
        _threadlocal_scope.current_scope = outer


def get_current_scope() -> dict[str, dict[str, Any]]:
    """Return what is given, by helper."""
    current: dict[str, dict[str, Any]] | None = getattr(_threadlocal_scope, "current_scope", None)
    if current is None:
        current = _threadlocal_scope.current_scope = {}
    return current
