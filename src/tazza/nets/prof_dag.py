"""The net type `prof_dag`: `dag`, with statistics of its operators.

As Caffe2 has it: the first run, which prepares kernels, is left out, and so are runs that fail. The time of an operator
type is that of all its operators in one run; mean and standard deviation are those over the runs (of all runs, not
estimated from a sample). What was measured is logged when the net ends, at the level `info`.

The clock is that of the host: of an operator on a device with streams it measures how long it takes to queue the work.
Profiles (`tazza.observers.Profile`) know more.

Changing state: the clocks while a run is under way, each used by the thread that runs its operator; the moments between
two runs, by the thread that runs the net.
"""

from __future__ import annotations

import math
import time
from collections import Counter

from tazza.nets.base import net_type
from tazza.nets.parallel import DagNet
from tazza.nets.run import Run
from tazza.operator import Observer, Operator
from tazza.proto import ProfDAGProto, ProfDAGProtos, TwoNumberStatsProto
from tazza.runtime.log import logger
from tazza.tensor import Tensor

MS = 1e3


class Moments:
    """Mean and spread of numbers that come one after the other. Source: Welford 1962.

    >>> moments = Moments(); moments.add(1.0); moments.add(3.0); moments.mean, moments.deviation, moments.count
    (2.0, 1.0, 2)
    """

    __slots__ = ("_squares", "count", "mean")

    def __init__(self) -> None:
        """Start without numbers."""
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        """Take another number into account."""
        self.count += 1
        step = value - self.mean
        self.mean += step / self.count
        self._squares += step * (value - self.mean)

    @property
    def deviation(self) -> float:
        """The standard deviation of the numbers; 0 where there are fewer than two."""
        return math.sqrt(self._squares / self.count) if self.count else 0.0

    def proto(self) -> TwoNumberStatsProto:
        """Return them as a message."""
        return TwoNumberStatsProto(mean=self.mean, stddev=self.deviation, count=self.count)


class _Clock(Observer[Operator]):
    """Measures the present run of an operator, in milliseconds."""

    def __init__(self) -> None:
        self.took_ms = 0.0
        self._started = 0.0

    def start(self) -> None:
        self._started = time.perf_counter()

    def stop(self) -> None:
        self.took_ms = MS * (time.perf_counter() - self._started)


@net_type("prof_dag", help="as dag, with statistics of every operator, logged when the net ends")
class ProfDagNet(DagNet):
    """Measures its operators; see `stats`."""

    def _create(self, strict: bool) -> None:
        super()._create(strict)
        self._clocks = [_Clock() for _ in self.operators]
        for operator, clock in zip(self.operators, self._clocks, strict=True):
            operator.attach(clock)  # pyright: ignore[reportArgumentType] -- an operator's observers see that operator
        self._counts = Counter(operator.definition.type for operator in self.operators)
        self._warm = False
        self._logged = False
        self._types: dict[str, Moments] = {type: Moments() for type in sorted(self._counts)}
        self._each = [Moments() for _ in self.operators]
        self._sizes = [[Moments() for _ in operator.outputs] for operator in self.operators]
        self._whole = Moments()

    def _run(self, run: Run | None) -> None:
        started = time.perf_counter()
        super()._run(run)
        took_ms = MS * (time.perf_counter() - started)
        if self._warm:
            self._add(took_ms)
        self._warm = True

    def _add(self, took_ms: float) -> None:
        self._whole.add(took_ms)
        totals = dict.fromkeys(self._types, 0.0)
        for operator, clock, each, sizes in zip(self.operators, self._clocks, self._each, self._sizes, strict=True):
            each.add(clock.took_ms)
            totals[operator.definition.type] += clock.took_ms
            for blob, size in zip(operator.outputs, sizes, strict=True):
                if isinstance(blob.value, Tensor):
                    size.add(blob.value.nbytes)
        for type, total in totals.items():
            self._types[type].add(total)

    def stats(self) -> ProfDAGProtos:
        """Return an entry for each operator type, by name, and in `ops_stats` the mean time of each operator.

        Times are in milliseconds, those of `ops_stats` in seconds; there are none before the second run has ended.
        """
        return self._protos([_entry(type, moments) for type, moments in self._types.items() if moments.count])

    def operator_stats(self) -> ProfDAGProtos:
        """Return the same with an entry for each operator instead, in their order, with the sizes of its outputs."""
        found: list[ProfDAGProto] = []
        for operator, moments, sizes in zip(self.operators, self._each, self._sizes, strict=True):
            if not moments.count:
                continue
            definition = operator.definition
            entry = _entry(definition.name if definition.name else definition.type, moments)
            for name, size in zip(definition.output, sizes, strict=True):
                if size.count:
                    entry.output_profile.add(name=name, bytes_used=size.proto())
            found.append(entry)
        return self._protos(found)

    def _protos(self, entries: list[ProfDAGProto]) -> ProfDAGProtos:
        made = ProfDAGProtos(net_name=self.name, stats=entries)
        for position, (operator, moments) in enumerate(zip(self.operators, self._each, strict=True)):
            if moments.count:
                type = operator.definition.type
                made.ops_stats.add(idx=str(position), net_name=self.name, type=type, exec_time_secs=moments.mean / MS)
        return made

    def report(self) -> str:
        """Return what was measured as text: a line for each type, then the whole run."""
        if not self._whole.count:
            return f"net {self.name!r} (prof_dag): fewer than two runs, so nothing was measured"
        lines = [
            f"net {self.name!r} (prof_dag): {self._whole.count} runs measured, {len(self.operators)} operators;"
            " time of each type in a run (standard deviation):"
        ]
        for type, moments in self._types.items():
            lines.append(f"{_time(moments)}  {self._counts[type]} x {type}")
        lines.append(f"{_time(self._whole)}  the whole run")
        return "\n".join(lines)

    def _end(self) -> None:
        super()._end()
        if hasattr(self, "_whole") and not self._logged:
            self._logged = True
            logger.info("%s", self.report())


def _entry(name: str, moments: Moments) -> ProfDAGProto:
    return ProfDAGProto(name=name, mean=moments.mean, stddev=moments.deviation, execution_time=moments.proto())


def _time(moments: Moments) -> str:
    return f"{moments.mean:10.4f} ms ({moments.deviation:.4f})"
