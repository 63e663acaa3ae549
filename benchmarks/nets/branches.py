"""Eight independent branches of convolutions, each on one thread: what two workers gain, beside two processes.

    python -m benchmarks.nets branches

Gain is measured against `simple` on one thread, which runs all branches. The two processes run half of the branches
each, at the same time, by `simple` on one thread, and never wait for each other; the longer of the two medians counts.
So they show what the machine gives to two threads that share nothing but its caches and its memory.

    python -m benchmarks.worker benchmarks.nets.branches JOB SPAWNED_S    is one of these processes
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.contestant import Contestant
from benchmarks.job import Job, Session
from benchmarks.nets.turns import WARM, Turn, in_turns, timed
from tazza.nets.base import NetBase
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.runtime.threads import at_most_threads
from tazza.workspace import Workspace

ROOT = Path(__file__).parents[2]
BRANCHES, HALVES = 8, 2
PROCESSES = "2 processes"
TIMEOUT_S = 120.0
AIMED = "async_scheduling"


@dataclass(frozen=True, slots=True)
class Work:
    """Branches of `depth` convolutions 3 x 3 from (1, channels, size, size) to the same."""

    name: str
    depth: int
    channels: int
    size: int
    aimed: bool = False

    def small(self) -> Work:
        """Return the same of small images."""
        return Work(self.name, self.depth, 8, 7, self.aimed)


WORKS = (Work("8 branches of 3 convolutions of 230 MFLOP", 3, 64, 56, aimed=True), Work("of 2 MFLOP", 3, 24, 14))


def net_def(work: Work, branches: int, net_type: str) -> NetDef:
    """Return the net: branches read the blob `x`, and their convolutions the filters `w` of their own."""
    made = NetDef(name=f"{branches} branches {net_type}", type=net_type, external_input=["x"])
    for branch in range(branches):
        last = "x"
        for level in range(work.depth):
            filters, result = f"w{branch}.{level}", f"y{branch}.{level}"
            made.op.append(operator_def("Conv", [last, filters], [result], kernel=3, pad=1))
            made.external_input.append(filters)
            last = result
        made.external_output.append(last)
    return made


def created(work: Work, definition: NetDef) -> tuple[Workspace, NetBase]:
    """Return the net in a workspace with numbers."""
    random, made = np.random.default_rng(0), Workspace()
    scale = np.float32((2 / (9 * work.channels)) ** 0.5)
    for name in definition.external_input:
        shape = (1, work.channels, work.size, work.size) if name == "x" else (work.channels, work.channels, 3, 3)
        made.feed(name, random.standard_normal(shape, np.float32) * scale)
    return made, made.create_net(definition)


# -- processes ---------------------------------------------------------------------------------------------------------


def start(job: Job) -> Session:
    """Return the session of one of the processes."""
    return _Half(job)


class _Half:
    net: NetBase
    made: Workspace

    def __init__(self, job: Job) -> None:
        self.job = job

    def note(self) -> str:
        """Return nothing: it is tazza."""
        return ""

    def load(self) -> None:
        """Make the net."""
        settings = dict(self.job.settings)
        work = Work(**settings.pop("work"))
        self.made, self.net = created(work, net_def(work, settings["branches"], "simple"))

    def run(self) -> None:
        """Run it on one thread."""
        with at_most_threads(1):
            self.net.run()

    def result(self) -> NDArray[Any]:
        """Return what the first branch gives."""
        return np.asarray(self.made.fetch(self.net.definition.external_output[0]))


class Processes:
    """Two processes, with half of the branches each."""

    _processes: list[Contestant]

    def __init__(self, work: Work) -> None:
        """Start them; they have run once on return."""
        self._open = ExitStack()
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
        job = Job(str(folder), 1, settings={"work": asdict(work), "branches": BRANCHES // HALVES})
        command = [sys.executable, "-m", "benchmarks.worker", "benchmarks.nets.branches", job.text()]
        self._asking = self._open.enter_context(ThreadPoolExecutor(HALVES))
        with self._open:
            self._processes = [
                self._open.enter_context(
                    Contestant(
                        command,
                        folder=ROOT,
                        log=folder / f"{number}.log",
                        environment={"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
                    )
                )
                for number in range(HALVES)
            ]
            self._ask({"do": "start", "results": str(folder / "results.npy"), "runs": 1})
            self._open = self._open.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def turn(self, seconds: float) -> float:
        """Let both run; return the longer median in s."""
        found = self._ask({"do": "time", "seconds": seconds, "warm": WARM * seconds})
        return max(float(answer["median_s"]) for answer in found)

    def _ask(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Ask both at the same time."""

        def ask(one: Contestant) -> dict[str, Any]:
            return one.ask(request, TIMEOUT_S)

        return list(self._asking.map(ask, self._processes))


# -- gains -------------------------------------------------------------------------------------------------------------


def nets(work: Work) -> dict[str, NetBase]:
    """Return the nets that run all branches, by the names of their lines; `simple` is the measure of the others."""
    parallel = net_def(work, BRANCHES, AIMED)
    parallel.num_workers = HALVES
    shared = NetDef()
    shared.CopyFrom(parallel)
    parallel.arg.add(name="threads_per_operator", i=1)
    definitions = {
        "simple": net_def(work, BRANCHES, "simple"),
        AIMED: parallel,
        f"{AIMED}, operators on all threads": shared,
    }
    return {name: created(work, definition)[1] for name, definition in definitions.items()}


def gains(work: Work, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return by what factor each contestant is faster than `simple` on one thread, one of each round."""
    made = nets(work)
    simple = made.pop("simple")

    def alone() -> None:
        with at_most_threads(1):
            simple.run()

    with Processes(work) as processes:
        turns: dict[str, Turn] = {"simple": timed(alone), PROCESSES: processes.turn}
        turns |= {name: timed(net.run) for name, net in made.items()}
        times = in_turns(turns, rounds, seconds)
    for net in (simple, *made.values()):
        net.close()
    base = times.pop("simple")
    return {name: [one / own for one, own in zip(base, found, strict=True)] for name, found in times.items()}
