"""Values that belong to the running thread, by class: the innermost one that was entered is the current one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, ClassVar

_stacks = threading.local()


def _stack(cls: type) -> list[Any]:
    found: dict[type, list[Any]] = _stacks.__dict__.setdefault("by_class", {})
    return found.setdefault(cls, [])


def _managed_classes(obj: object) -> list[type[Managed]]:
    """Return the classes of an object for which it counts: its own, and those below the managed ones."""
    return [cls for cls in type(obj).__mro__ if issubclass(cls, Managed) and cls not in (Managed, DefaultManaged)]


class Managed:
    """Base of classes with a current object: `with Thing(): Thing.current()`."""

    _allow_default: ClassVar[bool] = False

    @classmethod
    def current(cls, value: Any = None, required: bool = True) -> Any:
        """Return `value` where there is one, else the innermost object that was entered.

        Raises:
            AssertionError: there is none, and it is required.
        """
        if value is not None:
            return value
        stack = _stack(cls)
        if stack:
            return stack[-1]
        if cls._allow_default:
            stack.append(cls())
            return stack[-1]
        assert not required, f"Context {cls} is required but not found."
        return None

    def __enter__(self) -> Any:
        for cls in _managed_classes(self):
            _stack(cls).append(self)
        return self

    def __exit__(self, *args: object) -> None:
        for cls in _managed_classes(self):
            assert _stack(cls).pop() is self, f"contexts of {cls} do not nest"

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs inside of this object."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapper


class DefaultManaged(Managed):
    """The same, with an object that is made when none was entered."""

    _allow_default = True
