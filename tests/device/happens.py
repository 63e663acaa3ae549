"""Which work of the streams of a device is ordered, by what was asked of the driver, whatever the time it took.

Each stream has a clock: how much of its own work, and of that of other streams, comes before what is queued next. An
event keeps the clock of its stream; who waits for it takes that over; so does the host, which is one here: what one
of its threads has waited for counts for all. Source: C. Fidge, "Timestamps in message-passing systems", 1988.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

Clock = dict[int, int]
"""Stream -> how much of its work comes before."""


@dataclass(frozen=True)
class Access:
    """A piece of work on a stream, by the stream's count of them, that reads or writes an address."""

    stream: int
    number: int
    writes: bool


class Mark:
    """One recording of an event: when it was reached."""

    def __init__(self) -> None:
        self.at_ms: int | None = None
        self.before: Clock = {}


def _join(into: Clock, other: Clock) -> None:
    for stream, number in other.copy().items():  # what is collected meanwhile may note something
        into[stream] = max(into.get(stream, 0), number)


class Order:
    """Notes what is queued, recorded and waited for, and finds what touches one place without an order.

    Threads of the host take turns; garbage that one of them collects within a turn may note something too.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._turn = threading.RLock()
        self.races: list[str] = []
        self._host: Clock = {}
        self._streams: dict[int, Clock] = {}
        self._touched: dict[int, list[Access]] = {}
        self._for_host: list[Access] = []

    def queue(self, stream: int, reads: Iterable[int], writes: Iterable[int], *, to_host: bool = False) -> None:
        """Note work that reads and writes places; with `to_host` its result is the host's to read."""
        with self._turn:
            clock = self._clock(stream)
            clock[stream] = clock.get(stream, 0) + 1
            for places, wrote in ((reads, False), (writes, True)):
                for place in places:
                    access = Access(stream, clock[stream], wrote)
                    self._check(access, clock, place)
                    before = [] if wrote else self._touched.get(place, [])  # a write comes behind all of those
                    self._touched[place] = [*before, access]
            if to_host:
                self._for_host.append(Access(stream, clock[stream], writes=True))

    def _check(self, access: Access, clock: Clock, place: int) -> None:
        for before in self._touched.get(place, ()):
            if (access.writes or before.writes) and clock.get(before.stream, 0) < before.number:
                self.races.append(f"{access} and {before} at {place:#x}")

    def _clock(self, stream: int) -> Clock:
        clock = self._streams.setdefault(stream, {})
        _join(clock, self._host)
        return clock

    def record(self, stream: int) -> Clock:
        """Return what comes before an event that is recorded now."""
        with self._turn:
            return dict(self._clock(stream))

    def wait(self, stream: int, event: Clock) -> None:
        """Note that a stream waits for an event."""
        with self._turn:
            _join(self._clock(stream), event)

    def host_waits(self, ended: Clock) -> None:
        """Note that the host knows that this has ended."""
        with self._turn:
            _join(self._host, ended)

    def host_waits_for(self, stream: int) -> None:
        """Note that the host knows that all of a stream has ended."""
        with self._turn:
            _join(self._host, self._streams.get(stream, {}))

    def host_touches(self, reads: Iterable[int], writes: Iterable[int]) -> None:
        """Note that the host itself reads and writes places now: what streams do there it must have waited for."""
        with self._turn:
            for places, wrote in ((reads, False), (writes, True)):
                for place in places:
                    for before in self._touched.get(place, ()):
                        if (wrote or before.writes) and self._host.get(before.stream, 0) < before.number:
                            self.races.append(f"the host {'writes' if wrote else 'reads'} {place:#x} before {before}")

    def host_reads(self) -> None:
        """Note that the host reads what was copied to it."""
        with self._turn:
            for copied in self._for_host:
                if self._host.get(copied.stream, 0) < copied.number:
                    self.races.append(f"the host reads what {copied} copies")
            self._for_host.clear()
