"""Batches that are read ahead: one of them lies ready while the net runs with the one before."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from tazza.db import DBReader
from tazza.device import Event
from tazza.errors import DeadlineError, RunCancelledError
from tazza.runtime.patience import Patience
from tazza.runtime.workers import WorkerPool

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Holds one batch that a thread of its own reads ahead; it stays until it `was_taken`.

    So that an interrupt (Ctrl-C) loses none, the thread is asked to see that there is one, not for one more. A batch
    that cannot be read is an error, once: the next one is that of the records behind it.
    """

    def __init__(self, thread: str, what: str) -> None:
        """Start nothing; `thread` is the name of the thread, `what` that of which its waits are for, in messages."""
        self._thread = WorkerPool(1, thread)
        self._reader: DBReader | None = None
        self._read: deque[T | BaseException] = deque()
        self._patience = Patience(what)

    def batch(self, reader: DBReader, read: Callable[[DBReader, Patience], T]) -> T:
        """Return the next batch of a reader; what another one gave is dropped.

        Raises:
            TazzaError: whatever `read` raised.
        """
        if reader is not self._reader:
            self._reader, self._read = reader, deque()
        found = self._read
        if found and isinstance(found[0], DeadlineError | RunCancelledError):
            found.popleft()  # of a wait ahead of this run
        if not found:
            self._ask(reader, read).wait()
        batch = found[0]
        if isinstance(batch, BaseException):
            found.popleft()
            try:
                raise batch
            finally:
                del batch  # its traceback holds this frame
        return batch

    def was_taken(self, read: Callable[[DBReader, Patience], T]) -> None:
        """Drop the batch, and let the next one be read."""
        assert self._reader is not None
        self._read.popleft()
        self._ask(self._reader, read)

    def _ask(self, reader: DBReader, read: Callable[[DBReader, Patience], T]) -> Event:
        """Let the thread read a batch if there is none; return an event that ends when there is one."""
        found, done = self._read, Event()

        def see() -> None:
            try:
                with self._patience.span():
                    if not found:
                        found.append(read(reader, self._patience))
            except BaseException as error:
                found.append(error)
            finally:
                done.finish()

        self._thread.submit(see)
        return done

    def cancel(self) -> None:
        """Give up the wait for a record, where the reader has to wait for some."""
        self._patience.give_up()
        if self._reader is not None:
            self._reader.wake()

    def close(self) -> None:
        """Give up, and end the thread."""
        self.cancel()
        self._thread.close()
