"""What is loaded once somebody asks for operators."""

from __future__ import annotations

from collections.abc import Callable

_import_lazy_calls: list[Callable[[], object]] = []


def RegisterLazyImport(lazy: Callable[[], object]) -> None:
    """Let a function be called then."""
    _import_lazy_calls.append(lazy)


def TriggerLazyImport() -> None:
    """Call what waits."""
    for call in _import_lazy_calls:
        call()
