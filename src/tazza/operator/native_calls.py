"""Bound calls: native ones in a row are run as one, and the one loop that makes them, for nets, sections and plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn, TypeAlias, TypeVar

from tazza.errors import TazzaError
from tazza.operator.kernel import Call, CallChain, NativeCall
from tazza.runtime.segment import Segment
from tazza.tensor import Storage

K = TypeVar("K")
Part: TypeAlias = "tuple[tuple[K, ...], Call]"
"""A call, and what it is made for: that of each row, where it is a `NativeCalls`."""
Check = Callable[[], object]
"""Asked before each call of a run that may be stopped; raises what ends it."""


class NativeCalls(Segment):
    """Native calls in a row as one call without the GIL; `keys` say of each row what it belongs to.

    Raises:
        TazzaError: on a call: a row failed; the rows behind it did not run.
    """

    __call__ = Segment.run

    def __init__(self, calls: Sequence[NativeCall], keys: tuple[object, ...]) -> None:
        """Make the table."""
        self.calls = tuple(calls)
        super().__init__(self.calls)
        self.keys = keys

    def failed(self, row: int, status: int) -> NoReturn:
        """Raise the error of the call of a row."""
        error = self.calls[row - 1].error(status)
        error.key = self.keys[row - 1]
        try:
            raise error
        finally:
            del error  # its traceback holds this frame


def run_parts(
    parts: Iterable[Part[K]],
    written: Iterable[Storage],
    located: Callable[[Exception, tuple[K, ...]], TazzaError],
    check: Check | None = None,
) -> None:
    """Make calls one after the other.

    Args:
        parts: the calls.
        written: what counts as written afterwards, whatever failed.
        located: returns the error to raise for one of a call, told what the call, or the row that failed, is made for.
        check: called before each call; what it raises ends the run.
    """
    try:
        for keys, call in parts:
            if check is not None:
                check()
            try:
                call()
            except Exception as error:
                raise _told(error, keys, call, located) from cause_of(error)
    finally:
        for storage in written:
            storage.version += 1


def _told(
    error: Exception, keys: tuple[K, ...], call: Call, located: Callable[[Exception, tuple[K, ...]], TazzaError]
) -> TazzaError:
    if isinstance(error, TazzaError) and isinstance(call, NativeCalls):
        # What ends a table before its first row, as in a forked child, belongs to all of them.
        keys = tuple(one for one in keys if one is error.key)[:1] or keys
    return located(error, keys)


def cause_of(error: Exception) -> BaseException | None:
    """Return what to raise an error from that takes the place of `error`."""
    return error.__cause__ if isinstance(error, TazzaError) else error


def grouped(calls: Iterable[tuple[K, Call]]) -> Iterator[Part[K]]:
    """Yield calls with their keys; what is made of several is taken apart, native calls in a row are joined."""
    rows: list[tuple[K, NativeCall]] = []
    for key, call in _flat(calls):
        if isinstance(call, NativeCall):
            rows.append((key, call))
            continue
        if rows:
            yield _joined(rows)
            rows = []
        yield (key,), call
    if rows:
        yield _joined(rows)


def in_pieces(calls: Sequence[tuple[K, NativeCall]], rows: int) -> list[Part[K]]:
    """Return calls as tables of `rows` each, for who wants to stop between them."""
    return [_joined(calls[i : i + rows]) for i in range(0, len(calls), rows)]


def as_one(calls: Sequence[Call]) -> Call:
    """Return one call that makes all calls in turn."""
    found = [call for _, call in grouped((None, call) for call in calls)]
    return found[0] if len(found) == 1 else CallChain(tuple(found))


def threads_of(call: Call) -> int:
    """Return how many threads a call runs on: what its native parts were made for, 1 where it does not say."""
    if isinstance(call, CallChain):
        return max(map(threads_of, call.calls), default=1)
    if isinstance(call, NativeCalls):
        return max(1, *(row.threads for row in call.rows))
    return max(1, getattr(call, "threads", 1))


def _joined(rows: Sequence[tuple[K, NativeCall]]) -> Part[K]:
    keys = tuple(key for key, _ in rows)
    return keys, NativeCalls([call for _, call in rows], keys)


def _flat(calls: Iterable[tuple[K, Call]]) -> Iterator[tuple[K, Call]]:
    for key, call in calls:
        if isinstance(call, CallChain):
            yield from _flat((key, inner) for inner in call.calls)
        elif isinstance(call, NativeCalls):
            yield from ((key, native) for native in call.calls)
        else:
            yield key, call
