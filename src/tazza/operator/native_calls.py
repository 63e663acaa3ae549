"""Native calls in a row, run as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from tazza.data_class import dataclass
from tazza.operator.kernel import Call, CallChain, NativeCall
from tazza.operator.watch import Watch
from tazza.runtime.segment import Segment
from tazza.tensor import Storage

if TYPE_CHECKING:
    from tazza.operator.operator import Operator
    from tazza.operator.reorder import Refresh

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class NativeCalls:
    """Native calls in a row as one call without the GIL; `keys` say of each row what it belongs to."""

    segment: Segment
    keys: tuple[object, ...]

    def __call__(self) -> None:
        """Run all rows.

        Raises:
            TazzaError: a row failed; the rows behind it did not run.
        """
        row, status = self.segment.run()
        if row:
            error = self.call(row).error(status)
            error.key = self.keys[row - 1]
            try:
                raise error
            finally:
                del error  # its traceback holds this frame

    def pieces(self, rows: int) -> list[NativeCalls]:
        """Return the same calls in tables of `rows` each."""
        if len(self.keys) <= rows:
            return [self]
        starts = range(0, len(self.keys), rows)
        return [NativeCalls(Segment(self.segment.rows[i : i + rows]), self.keys[i : i + rows]) for i in starts]

    def call(self, row: int) -> NativeCall:
        """Return the call of a row, counted from 1."""
        found = self.segment.rows[row - 1]
        assert isinstance(found, NativeCall), "segments are made of native calls"
        return found


@dataclass(frozen=True, slots=True)
class BoundCalls:
    """A run of a net that is nothing but native calls, while `stands()` and what `watch` looks at stands.

    `refreshes` go before; each call has what it belongs to; `written` count as written afterwards.
    """

    watch: Watch
    stands: Callable[[], bool]
    refreshes: tuple[tuple[Operator, Refresh], ...]
    calls: tuple[tuple[Operator, NativeCall], ...]
    written: tuple[Storage, ...]


def grouped(calls: Iterable[tuple[K, Call]]) -> Iterator[tuple[tuple[K, ...], Call]]:
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


def as_one(calls: Sequence[Call]) -> Call:
    """Return one call that makes all calls in turn."""
    found = [call for _, call in grouped((None, call) for call in calls)]
    return found[0] if len(found) == 1 else CallChain(tuple(found))


def threads_of(call: Call) -> int:
    """Return how many threads a call runs on: what its native parts were made for, 1 where it does not say."""
    if isinstance(call, CallChain):
        return max(map(threads_of, call.calls), default=1)
    if isinstance(call, NativeCalls):
        return max(1, *(row.threads for row in call.segment.rows))
    return max(1, getattr(call, "threads", 1))


def _joined(rows: Sequence[tuple[K, NativeCall]]) -> tuple[tuple[K, ...], Call]:
    keys = tuple(key for key, _ in rows)
    return keys, NativeCalls(Segment([call for _, call in rows]), keys)


def _flat(calls: Iterable[tuple[K, Call]]) -> Iterator[tuple[K, Call]]:
    for key, call in calls:
        if isinstance(call, CallChain):
            yield from _flat((key, inner) for inner in call.calls)
        elif isinstance(call, NativeCalls):
            yield from ((key, call.call(row + 1)) for row in range(len(call.keys)))
        else:
            yield key, call
