"""Streams that tell what they are given, can be held up, and variables that notice overlapping use."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tazza.device import Context, CPUStream, Event, Stream
from tazza.device.stream import Work
from tazza.tensor import CPUPlace

LIMIT_S = 20.0
"""A wait that takes longer is a failure."""


class WatchedStream(CPUStream):
    """A stream that says where work was put and which waits were inserted; `log` is shared by streams."""

    def __init__(self, number: int, log: list[tuple[str, int, Event | None]]) -> None:
        """Start empty."""
        super().__init__(CPUPlace(), number)
        self.log = log

    def enqueue(self, work: Work) -> None:
        """Note the work."""
        self.log.append(("work", self.number, None))
        super().enqueue(work)

    def wait_for(self, event: Event) -> None:
        """Note the wait."""
        self.log.append(("wait", self.number, event))
        super().wait_for(event)


def own_streams(count: int) -> list[CPUStream]:
    """Return streams that no other test uses."""
    return [CPUStream(CPUPlace(), number) for number in range(count)]


@contextmanager
def held(streams: Sequence[Stream]) -> Generator[None]:
    """Let nothing that is queued in the block run before its end."""
    gate = Event()
    for stream in streams:
        stream.wait_for(gate)
    try:
        yield
    finally:
        gate.finish()


@dataclass
class Cell:
    """A variable that notices when it is used while somebody else writes it."""

    value: int = 0
    readers: int = 0
    writers: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def use(self, *, write: bool, broken: list[str]) -> Generator[Cell]:
        """Use the cell for some time."""
        with self.lock:
            if self.writers or (write and self.readers):
                broken.append("overlapping access")
            self.writers += write
            self.readers += not write
        try:
            yield self
        finally:
            with self.lock:
                self.writers -= write
                self.readers -= not write


def nothing(context: Context) -> None:
    """Do nothing."""
