"""Parameters under other names: layers in one scope use those of another.

    with ParameterSharing({"b": "a"}): ...

Scopes are written as they stand below the scope that is current when this is entered.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from caffe2.python import scope

SEPARATOR = scope._NAMESCOPE_SEPARATOR  # pyright: ignore[reportPrivateUsage]


class ParameterSharingContext:
    """Which scopes stand for which, innermost last."""

    def __init__(self) -> None:
        """Begin with none."""
        self._overrides: list[dict[str, str]] = []
        self._combined: ChainMap[str, str] = ChainMap()

    def get_parameter_name(self, name: str) -> str:
        """Return a name with the current scope in front, or with the one that stands for it."""
        return self._resolved(scope.CurrentNameScope()) + name

    def _resolved(self, current: str) -> str:
        """Follow the longest scope that another stands for, until none does."""
        parts = current.split(SEPARATOR)
        for end in range(len(parts), 0, -1):
            outer = SEPARATOR.join(parts[:end])
            outer = outer + SEPARATOR if outer and end < len(parts) else outer
            if outer in self._combined:
                rest = SEPARATOR.join(parts[end:])
                return self._resolved(self._combined[outer] + rest)
        return current

    def add_scope_overrides(self, shared_scopes: Mapping[str, str]) -> None:
        """Let these scopes stand for others too."""
        self._overrides.append(dict(shared_scopes))
        self._combine()

    def pop(self) -> None:
        """Take back the last ones."""
        assert len(self._overrides) > 0
        self._overrides.pop()
        self._combine()

    def _combine(self) -> None:
        self._combined = ChainMap(*reversed(self._overrides))


parameter_sharing_context = ParameterSharingContext()


def _normalize_namescope(namescope: str) -> str:
    return namescope if not namescope or namescope.endswith(SEPARATOR) else namescope + SEPARATOR


def _check(shared_scopes: Mapping[str, str]) -> None:
    """Check that no scope stands for one that encloses it or that it encloses."""
    assert isinstance(shared_scopes, dict), f"scopes are a map from one to another, not {shared_scopes!r}"
    for inner, outer in shared_scopes.items():
        assert not outer.startswith(inner), f"Illegal scope override {inner} -> {outer}"


@contextmanager
def ParameterSharing(shared_scopes: Mapping[str, str]) -> Generator[None, None, None]:
    """Let layers in the scopes of the left use the parameters of those of the right."""
    _check(shared_scopes)
    current = scope.CurrentNameScope()
    whole = {
        current + _normalize_namescope(inner): current + _normalize_namescope(outer)
        for inner, outer in shared_scopes.items()
    }
    parameter_sharing_context.add_scope_overrides(whole)
    try:
        yield
    finally:
        parameter_sharing_context.pop()
