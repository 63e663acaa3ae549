"""Names that are there and whose work is not: what is called says why.

The attribute `__refusal__` of a function, class or module holds the reason, so that `tazza migrate` can tell it of a
program that nobody has run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def refuses(reason: str, hint: str) -> Callable[[F], F]:
    """Let a function raise an `UnavailableError` with this reason, in place of whatever stands in it."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def refuse(*args: Any, **kwargs: Any) -> Any:
            from tazza.errors import UnavailableError

            del args, kwargs
            raise UnavailableError(f"{function.__name__}: {reason}", hint=hint)

        vars(refuse)["__refusal__"] = reason
        return refuse  # pyright: ignore[reportReturnType] -- it takes what the function takes

    return decorate
