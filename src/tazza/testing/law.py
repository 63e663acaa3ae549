"""What a failure says before its numbers: operator and case, engine, and which law does not hold."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tazza.errors import CheckError, TazzaError
from tazza.testing.case import Case


@contextmanager
def law(case: Case, engine: str, what: str) -> Generator[None]:
    """Say of whatever fails within that it is this case on this engine, and that it does not hold to the law `what`.

    >>> with law(Case("Relu", [[1.0]], [[1.0]], id="positive"), "reference", "output Y agrees with `expected`"):
    ...     assert 1 == 2, "1 is not 2"
    Traceback (most recent call last):
    tazza.errors.CheckError: Relu (case positive) on engine reference breaks the law: output Y agrees with `expected`
    1 is not 2

    Raises:
        CheckError: an assertion failed within.
        TazzaError: what was raised within, with the law as a line of its context.
    """
    name = f"{case.type} (case {case.id})" if case.id else case.type
    told = f"{name} on engine {engine} breaks the law: {what}"
    try:
        yield
    except AssertionError as error:
        said = error.message if isinstance(error, CheckError) else str(error).strip()
        where = error.where if isinstance(error, CheckError) else []
        failed = CheckError(f"{told}\n{said}", hint=error.hint if isinstance(error, CheckError) else None)
        failed.where = list(where)
        try:
            raise failed from error
        finally:
            del failed  # its traceback holds this frame
    except TazzaError as error:
        error.add_context(told)
        raise
