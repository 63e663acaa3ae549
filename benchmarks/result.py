"""What came out: figures by contender and work, and the ratios that follow from them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.lineup import AGAIN, INVARIANT, OWN, Work


@dataclass(slots=True)
class Entry:
    """A contender in one race. Times in seconds, memory in bytes; None where it came to nothing."""

    contender: str
    note: str = ""
    failure: str = ""
    medians_s: list[float] = field(default_factory=list[float])
    """One a round."""
    least_s: float | None = None
    runs: int = 0
    starts: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    """Each start of a fresh process: `process_s`, `import_s`, `load_s`, `first_run_s`, `first_result_s`."""
    memory: dict[str, Any] = field(default_factory=dict[str, Any])
    error: float | None = None
    """Largest difference to the reference, as a share of the span of its values."""

    @property
    def median_s(self) -> float | None:
        """The median of the rounds."""
        return statistics.median(self.medians_s) if self.medians_s else None

    @property
    def first_result_s(self) -> float | None:
        """From the start of the process to the first result; of several starts the median without the first."""
        times = [start["first_result_s"] for start in self.starts]
        warm = times[1:] if len(times) > 1 else times
        return statistics.median(warm) if warm else None

    def memory_bytes(self, which: str) -> int | None:
        """Return `above_import_bytes`, `import_bytes` or `peak_bytes`."""
        found = self.memory.get(which)
        return None if found is None else int(found)

    @property
    def peer(self) -> bool:
        """Whether it is neither tazza, with whatever settings, nor the control."""
        return self.contender.removesuffix(AGAIN) not in (OWN, INVARIANT) and not self.contender.endswith(AGAIN)


@dataclass(slots=True)
class Race:
    """All contenders on one work, timed in turns."""

    work: Work
    flops: int
    entries: list[Entry]
    reference: str = ""
    """The contender whose results the others are compared with."""

    def entry(self, name: str) -> Entry | None:
        """Return the entry of a contender."""
        return next((entry for entry in self.entries if entry.contender == name), None)

    @property
    def own_s(self) -> float | None:
        """Time of tazza: the median over its rounds."""
        own = self.entry(OWN)
        return None if own is None else own.median_s

    def best_peer(self) -> Entry | None:
        """Return the peer that leaves tazza the highest ratio; without a time of tazza the one with the least time."""
        timed = [entry for entry in self.entries if entry.peer and entry.medians_s]
        own = self.entry(OWN)
        if own is None or not own.medians_s:
            return min(timed, key=lambda entry: entry.median_s or 0.0, default=None)
        return max(timed, key=lambda entry: paired_ratio(own, entry) or 0.0, default=None)

    @property
    def ratio(self) -> float | None:
        """Time of tazza over that of the best peer."""
        best, own = self.best_peer(), self.entry(OWN)
        return None if best is None or own is None else paired_ratio(own, best)

    @property
    def control(self) -> float | None:
        """Time of the contender that runs twice: second process over first. How far it is from 1 is the noise."""
        for entry in self.entries:
            first = self.entry(entry.contender.removesuffix(AGAIN))
            if entry.contender.endswith(AGAIN) and first is not None:
                return paired_ratio(entry, first)
        return None

    def rate(self, entry: Entry) -> float | None:
        """Return the products of a contender in 10^9 operations per second."""
        return None if entry.median_s is None else self.flops / entry.median_s / 1e9

    def data(self) -> dict[str, Any]:
        """Return everything as plain data."""
        best = self.best_peer()
        return {
            "work": {**asdict(self.work), "name": self.work.name},
            "flops": self.flops,
            "reference": self.reference,
            "ratio": self.ratio,
            "best_peer": None if best is None else best.contender,
            "control": self.control,
            "contenders": [
                {
                    **asdict(entry),
                    "median_s": entry.median_s,
                    "gflops_per_s": self.rate(entry),
                    "first_result_s": entry.first_result_s,
                }
                for entry in self.entries
            ],
        }


def paired_ratio(one: Entry, other: Entry) -> float | None:
    """Return the median, over the rounds, of one contender's time over another's in the same round.

    Machines that others share change their speed within seconds, by a factor of two; turns that follow each other
    meet the same speed more often than all turns of a contender do.

    >>> paired_ratio(Entry("a", medians_s=[1.0, 6.0, 2.0]), Entry("b", medians_s=[2.0, 8.0, 4.0]))
    0.5
    """
    ratios = [mine / theirs for mine, theirs in zip(one.medians_s, other.medians_s, strict=False)]
    return statistics.median(ratios) if ratios else None


def median_ratio(races: Iterable[Race]) -> float | None:
    """Return the median of the ratios of several races of one work.

    >>> median_ratio([]) is None
    True
    """
    ratios = [race.ratio for race in races if race.ratio is not None]
    return statistics.median(ratios) if ratios else None


def grouped(races: Sequence[Race]) -> dict[str, list[Race]]:
    """Return the races of each work by its name, in the order in which they first came."""
    found: dict[str, list[Race]] = {}
    for race in races:
        found.setdefault(race.work.name, []).append(race)
    return found
