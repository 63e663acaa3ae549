"""Decoding the records of a batch on several threads, each record with random numbers of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tazza.device import Event, Generator
from tazza.runtime.closing import Closing
from tazza.runtime.workers import WorkerPool

T = TypeVar("T")


class Decoding(Closing, Generic[T]):
    """Threads that decode. What is drawn for a record hangs on its place in the stream, not on the threads."""

    def __init__(self, name: str, threads: int) -> None:
        """Start nothing."""
        self._pool = WorkerPool(threads, name)
        self._threads = threads

    def batch(
        self, records: Sequence[T], decode: Callable[[int, T, int | None], None], random: Generator | None
    ) -> None:
        """Call `decode(position, record, seed)` for each record, and wait; without `random` the seeds are None.

        Raises:
            BaseException: what the first record that cannot be decoded raised; the others were decoded.
        """
        seeds = [None] * len(records) if random is None else random.raw(len(records)).tolist()
        left = deque(zip(range(len(records)), records, seeds, strict=True))
        errors: dict[int, BaseException] = {}

        def work(done: Event) -> None:
            try:
                while left:
                    try:
                        position, record, seed = left.popleft()
                    except IndexError:  # another thread took the last one
                        break
                    try:
                        decode(position, record, seed)
                    except BaseException as error:
                        errors[position] = error
            finally:
                done.finish()

        ends = [Event() for _ in range(min(self._threads, len(records)))]
        for end in ends:
            self._pool.submit(lambda end=end: work(end))
        for end in ends:
            end.wait()
        if errors:
            try:
                raise errors[min(errors)]
            finally:
                errors.clear()  # their tracebacks hold this frame

    def close(self) -> None:
        """End the threads."""
        self._pool.close()
