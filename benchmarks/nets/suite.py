"""What the executors of nets are held against: each benchmark of this folder as lines with a figure, ratio and aim.

python -m benchmarks.nets.suite NAME FILE [--quick]    measures one benchmark, and writes its lines as JSON

A ratio is ours over theirs: of times, below 1 is faster. Where an aim stands, it says which figure it binds, and
whether from above or from below.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.nets.turns import in_turns, ratio


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound of a line's own figure (`ours`) or of its `ratio`; exactly one of `most` and `least` is given."""

    of: Literal["ours", "ratio"]
    most: float | None = None
    least: float | None = None

    def met(self, value: float) -> bool:
        """Whether a value keeps the bound.

        >>> Aim("ours", most=15.0).met(15.0), Aim("ratio", least=0.9).met(0.89)
        (True, False)
        """
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    def __str__(self) -> str:
        return f"{self.of} {'>=' if self.most is None else '<='} {self.least if self.most is None else self.most:.2f}"


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: `ours`, a median in `unit`; `theirs` of `other` in the same unit, and the ratio of the two.

    The ratio is the median over the rounds, not the ratio of the medians.
    """

    case: str
    ours: float
    unit: str
    other: str = ""
    theirs: float | None = None
    ratio: float | None = None
    aim: Aim | None = None

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none, False where its figure is missing.

        >>> [Line("a", 2.0, "us", aim=aim).met for aim in (None, Aim("ours", most=3.0), Aim("ratio", most=1.0))]
        [None, True, False]
        """
        if self.aim is None:
            return None
        value = self.ours if self.aim.of == "ours" else self.ratio
        return value is not None and self.aim.met(value)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Line:
        """Return the line that `asdict` made plain data of.

        >>> line = Line("a", 2.0, "us", aim=Aim("ours", most=3.0)); Line.of(asdict(line)) == line
        True
        """
        values = dict(data)
        aim = values.pop("aim")
        return Line(**values, aim=None if aim is None else Aim(**aim))


@dataclass(frozen=True, slots=True)
class Suite:
    """One benchmark: what gives its lines, quickly or not, and the modules of those it is held against."""

    name: str
    lines: Callable[[bool], Iterator[Line]]
    peers: tuple[str, ...]


SUITES: dict[str, Suite] = {}
"""By name; filled by `suite`."""


def suite(*peers: str) -> Callable[[Callable[[bool], Iterator[Line]]], Callable[[bool], Iterator[Line]]]:
    """Return a decorator that registers a function from `quick` to lines under its own name."""

    def register(function: Callable[[bool], Iterator[Line]]) -> Callable[[bool], Iterator[Line]]:
        SUITES[function.__name__] = Suite(function.__name__, function, peers)
        return function

    return register


@suite("torch")
def overhead(quick: bool) -> Iterator[Line]:
    """What an operator costs beside its kernel, by net type and graph; beside it what PyTorch takes for a small one."""
    from benchmarks.nets import overhead as script

    rounds, seconds, operators = (2, 0.01, 100) if quick else (7, 0.1, script.OPERATORS)
    for work in script.WORKS:
        with script.turns(work, operators) as turns:
            found = in_turns(turns, rounds, seconds)
        count = work.count(operators)
        theirs = found.pop(script.EAGER, None)
        for name, times in found.items():
            most = script.AIMS_US.get(name) if work.aimed else None
            yield Line(
                f"{work.name}, {name}",
                _median(times, 1e6 / count),
                work.unit,
                "" if theirs is None else script.EAGER,
                None if theirs is None else _median(theirs, 1e6 / count),
                None if theirs is None else ratio(times, theirs),
                None if most is None else Aim("ours", most=most),
            )


@suite()
def branches(quick: bool) -> Iterator[Line]:
    """Independent branches of single-thread convolutions: what two workers gain, beside what two processes gain."""
    from benchmarks.nets import branches as script

    rounds, seconds = (2, 0.02) if quick else (9, 0.6)
    for work in script.WORKS:
        found = script.gains(work.small() if quick else work, rounds, seconds)
        processes = found.pop(script.PROCESSES)
        for name, gained in found.items():
            yield Line(
                f"{work.name}, {name}",
                statistics.median(gained),
                "x",
                script.PROCESSES,
                statistics.median(processes),
                ratio(gained, processes),
                Aim("ratio", least=0.9) if work.aimed and name == script.AIMED else None,
            )


@suite()
def googlenet(quick: bool) -> Iterator[Line]:
    """GoogLeNet on one image: nets that run its branches side by side, beside `simple`; all threads for everybody."""
    from benchmarks.nets import googlenet as script

    rounds, seconds = (2, 0.05) if quick else (11, 0.5)
    with script.turns(quick=quick) as turns:
        found = in_turns(turns, rounds, seconds)
    for name in (name for name in found if name != script.BASE):
        yield Line(
            f"GoogLeNet, batch 1, {name}",
            _median(found[name], 1e3),
            "ms",
            script.BASE,
            _median(found[script.BASE], 1e3),
            ratio(found[name], found[script.BASE]),
            Aim("ratio", most=1.0) if name == script.AIMED else None,
        )


@suite()
def grain(quick: bool) -> Iterator[Line]:
    """Busy operators of one thread in layers, beside `simple`: from which length on two workers pay."""
    from benchmarks.nets import grain as script

    rounds, seconds = (2, 0.01) if quick else (7, 0.3)
    for grain_us in script.GRAINS_US:
        with script.turns(grain_us) as turns:
            found = in_turns(turns, rounds, seconds)
        base, factor = found.pop(script.BASE), 1e6 / script.count_of(grain_us)
        for name, times in found.items():
            yield Line(
                f"{grain_us} us an operator, {name}",
                _median(times, factor),
                "us/op",
                script.BASE,
                _median(base, factor),
                ratio(times, base),
            )


@suite()
def overlap(quick: bool) -> Iterator[Line]:
    """Copies on a stream of their own beside compute on one thread; the script of this name also draws them."""
    from benchmarks.nets import overlap as script

    found = script.overlap(2 if quick else 7, quick=quick)
    name, longer_s = max((script.COPIES, found.copies_s), (script.COMPUTE, found.compute_s), key=lambda one: one[1])
    aim = Aim("ratio", most=script.AIM)
    yield Line("copies beside compute", 1e3 * found.both_s, "ms", name, 1e3 * longer_s, found.ratio, aim)


@suite()
def profiling(quick: bool) -> Iterator[Line]:
    """What it costs an operator that somebody observes it, or records it, beside a run that nobody looks at."""
    from benchmarks.nets import profiling as script

    for type in script.TYPES:
        found = script.measure(type, 1 if quick else script.ROUNDS)
        base = found.pop(script.unobserved.__name__)
        for way, took in found.items():
            yield Line(f"{type}, {way}", took, "us/op", script.unobserved.__name__, base, took / base)


@suite()
def planning(quick: bool) -> Iterator[Line]:
    """Plans of ResNet-50: compiling one, the memory of a training step, running beside a busy thread of Python."""
    from benchmarks.nets import planning as script

    yield Line("ResNet-50, batch 1, compiling", script.compile_s(quick=quick), "s", aim=Aim("ours", most=1.5))
    planned, kept = script.activation_bytes(quick=quick)
    mib = 1 << 20
    yield Line(
        f"ResNet-50 training, batch {script.BATCHES[quick]}, activations",
        planned / mib,
        "MiB",
        "unplanned",
        kept / mib,
        planned / kept,
        Aim("ratio", most=0.7),
    )
    rounds, seconds = (2, 0.05) if quick else (9, 0.5)
    with script.turns(quick=quick) as turns:
        found = in_turns(turns, rounds, seconds)
    alone, beside = found[script.ALONE], found[script.BESIDE]
    yield Line(
        f"ResNet-50, batch 1, one thread, {script.BESIDE}",
        _median(beside, 1e3),
        "ms",
        script.ALONE,
        _median(alone, 1e3),
        ratio(beside, alone),
        Aim("ratio", most=1.3),
    )


@suite("torch")
def recurrent(quick: bool) -> Iterator[Line]:
    """LSTMs over a sequence, and a step of training, beside PyTorch's; and how long their products alone take."""
    from benchmarks.nets import recurrent as script

    rounds, seconds = (2, 0.02) if quick else (11, 1.0)
    for training in (False, True):
        work = script.Work(training=training)
        work = work.small() if quick else work
        with script.turns(work) as turns:
            found = in_turns({**turns, "products alone": script.limit_s(work)}, rounds, seconds)
        ours = found.pop(script.PLAN)
        for name, theirs in found.items():
            aim = Aim("ratio", most=script.AIMS[training]) if name == script.TORCH else None
            yield Line(work.name, _median(ours, 1e3), "ms", name, _median(theirs, 1e3), ratio(ours, theirs), aim)


@suite()
def regions(quick: bool) -> Iterator[Line]:
    """Small nets on all threads: regions of our own beside libgomp's settings, quiet and beside busy processes."""
    from benchmarks.nets import regions as script

    rounds, seconds = (1, 0.02) if quick else (3, 0.6)
    for condition, busy in script.conditions().items():
        found = script.rounds_of(busy, rounds, seconds)
        for name, work in found:
            if name != script.OURS:
                ours, theirs = found[script.OURS, work], found[name, work]
                case = f"{work}, batch {script.WORKS[work]}, {condition}"
                yield Line(case, _median(ours, 1e3), "ms", name, _median(theirs, 1e3), ratio(ours, theirs))


@suite("torch", "fbgemm_gpu")
def tables(quick: bool) -> Iterator[Line]:
    """A DLRM with tables of 100,000 rows: training by row-wise Adagrad, inference with tables in few bits."""
    from benchmarks.nets import tables as script

    rounds, seconds = (2, 0.02) if quick else (7, 0.6)
    found = in_turns(script.training_turns(quick=quick), rounds, seconds)
    yield from _beside("DLRM, batch 512, training", found.pop(script.TRAIN), found, 0.6)
    found = in_turns(script.inference_turns(quick=quick), rounds, seconds)
    ours = {bits: found.pop(f"{bits} bits") for bits in script.BITS}
    for bits, times in ours.items():
        case = f"DLRM, batch 512, inference, tables of {bits} bits"
        yield from _beside(case, times, found, 0.9 if bits == script.BITS[0] else 0.6)
    taken = {name: script.memory_of(name, quick=quick) for name in script.trainers()}
    case, mib, own = "DLRM, batch 512, training, memory", 1 << 20, taken.pop(script.TRAIN)
    assert own is not None, "we can train"
    if not taken:
        yield Line(case, own / mib, "MiB")
    for name, theirs in taken.items():
        if theirs is not None:
            yield Line(case, own / mib, "MiB", name, theirs / mib, own / theirs, Aim("ratio", most=1.0))


def _beside(case: str, ours: Sequence[float], peers: Mapping[str, Sequence[float]], most: float) -> Iterator[Line]:
    """Yield a line in ms for each peer, whose ratio is to be at most so much; one without, if there is none."""
    if not peers:
        yield Line(case, _median(ours, 1e3), "ms")
    for name, theirs in peers.items():
        yield Line(
            case, _median(ours, 1e3), "ms", name, _median(theirs, 1e3), ratio(ours, theirs), Aim("ratio", most=most)
        )


def _median(times: Sequence[float], factor: float) -> float:
    return statistics.median(times) * factor


def write_lines(name: str, path: Path, *, quick: bool) -> None:
    """Measure one benchmark here, and write its lines."""
    from tazza.runtime.threads import thread_count

    lines = [asdict(line) for line in SUITES[name].lines(quick)]
    path.write_text(json.dumps({"threads": thread_count(), "lines": lines}), encoding="utf-8")


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description="measure one benchmark of nets")
    parser.add_argument("name", choices=sorted(SUITES))
    parser.add_argument("path", type=Path, help="where to write the lines")
    parser.add_argument("--quick", action="store_true", help="small nets, few rounds")
    given = parser.parse_args()
    write_lines(given.name, given.path, quick=given.quick)


if __name__ == "__main__":
    main()
