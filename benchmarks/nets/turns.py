"""Contestants that take turns, so that a slow moment of the machine meets all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.worker import run_times, summary

Turn = Callable[[float], float]
"""Runs something for so many seconds, and returns the median time of a run in s."""

Clock = Callable[[], float]
"""Reads seconds, since any moment."""

WARM = 0.2
"""Part of a turn that comes before its clock starts: caches hold what another contestant used."""


def timed(run: Callable[[], object], clock: Clock = time.perf_counter) -> Turn:
    """Return the turn of a function, by a clock of time or of what the processor did.

    >>> timed(list)(0.0) > 0
    True
    """

    def call() -> None:
        run()

    def turn(seconds: float) -> float:
        return summary(run_times(call, seconds, WARM * seconds, clock))["median_s"]

    return turn


def in_turns(contestants: Mapping[str, Turn], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return for each contestant its median times in s, one of each round, in the order of `contestants`.

    Every second round goes backwards, so that nobody always follows the same one. A round before the first one, of one
    run each, is not counted.

    >>> in_turns({"a": lambda seconds: seconds, "b": lambda seconds: 2 * seconds}, 3, 0.5)
    {'a': [0.5, 0.5, 0.5], 'b': [1.0, 1.0, 1.0]}
    """
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in contestants.values():
        turn(0.0)
    for number in range(rounds):
        order = list(contestants.items())
        for name, turn in reversed(order) if number % 2 else order:
            found[name].append(turn(seconds))
    return found


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of what one takes over what the other takes in the same round.

    >>> ratio([1.0, 20.0, 3.0], [2.0, 40.0, 2.0])
    0.5
    """
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))
