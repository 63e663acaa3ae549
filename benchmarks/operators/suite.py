"""Rows of one family as lines: ours beside PyTorch's, in turns, and ours a second time.

python -m benchmarks.operators.suite FAMILY FILE [--quick] [--cpu]    measures a family, and writes its lines as JSON

A ratio is ours over theirs, the median over the rounds: below 1 is faster. `again` is what the same net took as a third
contestant, over what it took as the first: by so much a ratio can be wrong. `copy_share` is what a copy of as many
bytes would take, over what ours takes.

With `--cpu` turns are measured by the processor time of the process, all of its threads, in place of the time of a
clock: that says something where others use the machine. Waiting threads use the processor too, so it is meant for one
thread each (`OMP_NUM_THREADS=1`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.nets.turns import Clock, in_turns, ratio, timed
from benchmarks.operators.contest import BenchmarkError, Contest, contests
from benchmarks.operators.row import FAMILIES, Draw, Family, Row, load, torch
from tazza.runtime.threads import thread_count

OURS, THEIRS, AGAIN = "tazza", "torch", "tazza again"
ROUNDS, TURN_S = 5, 0.04
QUICK_ROUNDS, QUICK_TURN_S = 2, 0.0
COPIED = (1_000_000, 25_000_000)
"""Elements whose copies tell what moving bytes takes: from caches, and from memory."""


@dataclass(frozen=True, slots=True)
class Line:
    """One contest; times are medians in s. `failure` is why there are none."""

    family: str
    name: str
    types: tuple[str, ...]
    engine: str
    most: float
    ours_s: float = 0.0
    theirs_s: float | None = None
    ratio: float | None = None
    again: float = 1.0
    copy_share: float | None = None
    failure: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the ratio keeps its bound by more than the second run differs; None without a ratio.

        >>> [Line("f", "a", (), "", 1.0, 1.0, 1.0, r, again=1.02).met for r in (0.97, 0.99, 1.1, None)]
        [True, False, False, None]
        """
        if self.failure:
            return False
        return None if self.ratio is None else self.ratio + abs(self.again - 1) <= self.most

    @property
    def missed(self) -> bool:
        """Whether the ratio is above its bound by more than the second run differs.

        >>> [Line("f", "a", (), "", 1.0, 1.0, 1.0, r, again=1.02).missed for r in (0.97, 1.01, 1.1, None)]
        [False, False, True, False]
        """
        return bool(self.failure) or (self.ratio is not None and self.ratio - abs(self.again - 1) > self.most)


@dataclass(frozen=True, slots=True)
class Measure:
    """How turns are measured."""

    rounds: int
    turn_s: float
    clock: Clock

    @staticmethod
    def of(*, quick: bool, cpu: bool) -> Measure:
        """Return what the command line asks for."""
        clock = time.process_time if cpu else time.perf_counter
        return Measure(QUICK_ROUNDS, QUICK_TURN_S, clock) if quick else Measure(ROUNDS, TURN_S, clock)

    def lines(self, family: Family, words: Sequence[str], *, tiny: bool) -> Iterator[Line]:
        """Measure the rows of a family whose names have one of the words (all, without words)."""
        rates = {elements: self._copy_rate(elements // (1000 if tiny else 1)) for elements in COPIED}
        for row in family.rows(Draw(tiny=tiny)):
            if words and not any(word.lower() in f"{family.name} {row.name}".lower() for word in words):
                continue
            yield from self._row(family, row, rates)

    def _row(self, family: Family, row: Row, rates: dict[int, float]) -> Iterator[Line]:
        most = family.most if row.most is None else row.most
        try:
            for contest in contests(row):
                yield self._line(family, contest, most, rates)
        except BenchmarkError as error:
            yield Line(family.name, row.name, (row.type,), "", most, failure=str(error))

    def _line(self, family: Family, contest: Contest, most: float, rates: dict[int, float]) -> Line:
        turns = {OURS: timed(contest.ours, self.clock), AGAIN: timed(contest.ours, self.clock)}
        if contest.theirs is not None:
            turns = {OURS: turns[OURS], THEIRS: timed(contest.theirs, self.clock), AGAIN: turns[AGAIN]}
        found = in_turns(turns, self.rounds, self.turn_s)
        ours, theirs = found[OURS], found.get(THEIRS)
        nearest = min(rates, key=lambda elements: abs(8 * elements - contest.nbytes))
        middle = statistics.median(ours)
        return Line(
            family.name,
            contest.name,
            contest.types,
            contest.engine,
            most,
            middle,
            None if theirs is None else statistics.median(theirs),
            None if theirs is None else ratio(ours, theirs),
            ratio(found[AGAIN], ours),
            contest.nbytes / rates[nearest] / middle if contest.nbytes else None,
        )

    def _copy_rate(self, elements: int) -> float:
        """Return the bytes that are read and written in a second by a copy of so many float32."""
        row = Row("Copy", [np.zeros(elements, np.float32)])
        taken = [timed(contest.ours, self.clock)(self.turn_s) for contest in contests(row) for _ in range(3)]
        return 8 * elements / statistics.median(taken)


def write_lines(name: str, path: Path, words: Sequence[str], measure: Measure, *, tiny: bool) -> None:
    """Measure one family here, and write its lines."""
    if torch is not None:
        torch.set_num_threads(thread_count())
        torch.set_flush_denormal(True)
    lines = [asdict(line) for line in measure.lines(FAMILIES[name], words, tiny=tiny)]
    path.write_text(json.dumps({"threads": thread_count(), "lines": lines}), encoding="utf-8")


def line_of(data: dict[str, Any]) -> Line:
    """Return the line that `asdict` made plain data of."""
    values: dict[str, Any] = {**data, "types": tuple(data["types"])}
    return Line(**values)


def main() -> None:
    """Measure what the command line names."""
    load()
    parser = argparse.ArgumentParser(description="time one family of operators")
    parser.add_argument("family", choices=sorted(FAMILIES))
    parser.add_argument("path", type=Path, help="where to write the lines")
    parser.add_argument("words", nargs="*", help="only rows with one of these in their names")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, few rounds")
    parser.add_argument("--cpu", action="store_true", help="by processor time")
    given = parser.parse_args()
    measure = Measure.of(quick=given.quick, cpu=given.cpu)
    write_lines(given.family, given.path, given.words, measure, tiny=given.quick)


if __name__ == "__main__":
    main()
