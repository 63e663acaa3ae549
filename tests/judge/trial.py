"""Chains on trial: as nets of a type, on engines, in a type of computing, held against the same in float64.

A *way* is how a chain is run. Nets run several times, so that layouts, copies and lent memory settle; where a chain
can, also on fewer images and again on all.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tazza.errors import NumericError, TazzaError
from tazza.operator import ENGINES, make_argument, why_unavailable
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.fpmath import FPMATH
from tazza.workspace import Workspace
from tests.fence import fenced
from tests.judge.chains import Chain, draw_chain
from tests.judge.dying_word import now
from tests.judge.exact import COARSE, Blobs, Noise, Reach, reach, run_exactly
from tests.judge.hand import Array
from tests.judge.outcome import Outcome, Request, Verdict, part

RUNS = 2
"""How often a net runs on what it is fed; state goes on from run to run."""
LOOKS = ((4, 1.0, 12.0), (24, 4.0, 3.0), (192, 4.0, 3.0))
"""Runs with errors, their size, and how many times as far as these went a result may lie.

Who fails a look gets the next one, which meets jumps more surely: that two maxima are equal in bfloat16, and both have
a gradient then, is met in a few of a hundred runs.
"""


@dataclass(frozen=True)
class Way:
    """How a chain is run; `engine` is asked for by all operators that it has a kernel of."""

    type: str
    fpmath: str = ""
    engine: str = ""

    def __str__(self) -> str:
        return " ".join(word for word in (self.type, self.fpmath, self.engine) if word)


@dataclass(frozen=True)
class Mismatch:
    """A chain that gave another result, or none."""

    chain: Chain
    way: Way
    what: str

    def __str__(self) -> str:
        return f"chain {self.chain.seed}, {self.way}: {self.what}"


@dataclass
class Session:
    """One feed after the other: which inputs, how many runs; and what came out exactly, as far as it was asked."""

    chain: Chain
    feeds: list[dict[str, Array]] = field(default_factory=list[dict[str, Array]])
    narrow: bool = False
    engine: str = ""
    unsteady: bool = False
    _reaches: dict[tuple[int, int], list[dict[str, Reach]]] = field(
        default_factory=dict[tuple[int, int], list[dict[str, Reach]]]
    )

    def __post_init__(self) -> None:
        """Feed all images, fewer, and all again."""
        chain = self.chain
        fewer = {name: a[:1] if name in chain.batched else a for name, a in chain.fed.items()}
        self.feeds = [chain.fed, fewer, chain.fed] if chain.batched else [chain.fed]

    def reaches(self, feed: int, look: int) -> list[dict[str, Reach]]:
        """Return where each output may lie after each run on a feed."""
        feed = 0 if feed == 2 else feed  # the same numbers
        if (feed, look) not in self._reaches:
            self._reaches[feed, look] = self._reached(self.feeds[feed], look)
        return self._reaches[feed, look]

    def _reached(self, fed: Mapping[str, Array], look: int) -> list[dict[str, Reach]]:
        count, amplitude, factor = LOOKS[look]
        exact = self._runs(fed, None)
        rng = np.random.default_rng([self.chain.seed, look])
        try:
            others = [self._runs(fed, Noise(rng, self.narrow, amplitude, self.engine)) for _ in range(count)]
        except TazzaError:  # a label no longer sums up to 1, a scale gives another extent: nothing can be said
            self.unsteady = True
            return [{name: Reach(run[name], np.full(run[name].shape, np.inf)) for name in run} for run in exact]
        return [
            {name: reach(run[name], [other[i][name] for other in others], factor) for name in self.chain.outputs}
            for i, run in enumerate(exact)
        ]

    def _runs(self, fed: Mapping[str, Array], noise: Noise | None) -> list[Blobs]:
        chain = self.chain
        state = dict(fed)
        found: list[Blobs] = []
        for _ in range(RUNS if chain.state else 1):
            blobs = run_exactly(chain.ops, state, noise, forward=len(chain.forward))
            found.append({name: blobs[name] for name in chain.outputs})
            state.update({name: blobs[name] for name in chain.state})
        return found


def net_of(chain: Chain, way: Way) -> NetDef:
    """Return the chain as a net."""
    net = NetDef(name="chain", type=way.type, op=chain.ops, external_output=chain.outputs)
    for op in net.op:
        if way.engine and why_unavailable(op.type, "cpu", way.engine) is None:
            op.engine = way.engine
    if way.type == "plan":
        net.arg.append(make_argument("inputs", [*{"x", *chain.batched}]))
    return net


def results_of(chain: Chain, way: Way, feeds: Sequence[Mapping[str, Array]]) -> Iterator[tuple[int, int, Blobs]]:
    """Run the chain and yield feed, run and outputs; its memory is fenced, as that of layers is."""
    ws = Workspace()
    with FPMATH.override(way.fpmath), fenced(at_end=chain.seed % 2 == 0):
        made = None
        for number, fed in enumerate(feeds):
            for name, array in fed.items():
                ws.feed(name, array.copy())
            made = ws.create_net(net_of(chain, way)) if made is None else made
            for run in range(RUNS):
                made.run()
                yield number, run, {name: np.array(ws.fetch(name)) for name in chain.outputs}
        if made is not None:
            made.close()


@dataclass(frozen=True)
class Judged:
    """What came of a chain, run in one way."""

    way: Way
    verdict: Verdict
    what: str = ""


def judged(chain: Chain, ways: Iterable[Way]) -> Iterator[Judged]:
    """Yield what came of a chain for each way."""
    sessions: dict[tuple[bool, str], Session] = {}
    for way in ways:
        kind = way.fpmath == "bf16", way.engine if way.engine in COARSE else ""
        session = sessions.setdefault(kind, Session(chain, narrow=kind[0], engine=kind[1]))
        yield _judged(chain, way, session)


def judge(chain: Chain, ways: Iterable[Way]) -> list[Mismatch]:
    """Return what a chain gave otherwise than it may, at most one for each way."""
    return [Mismatch(chain, one.way, one.what) for one in judged(chain, ways) if one.verdict is Verdict.MISMATCH]


def _judged(chain: Chain, way: Way, session: Session) -> Judged:
    undecided: set[str] = set()
    now(f"draw_chain({chain.seed}) {way}")
    try:
        for feed, run, blobs in results_of(chain, way, session.feeds):
            for name, array in blobs.items():
                excess = _excess(session, feed, run, name, array, undecided)
                if excess > 1:
                    what = f"{name} after run {run} of feed {feed} is {excess:.3g} times as far off as it may"
                    return Judged(way, Verdict.MISMATCH, what)
    except NumericError as error:
        session.reaches(0, len(LOOKS) - 1)
        return Judged(way, Verdict.UNDECIDED if session.unsteady else Verdict.MISMATCH, f"NumericError: {error}")
    except Exception as error:  # whatever it raises is a mismatch
        return Judged(way, Verdict.MISMATCH, f"{type(error).__name__}: {error}")
    if undecided:
        return Judged(way, Verdict.UNDECIDED, f"nothing bounds {', '.join(sorted(undecided))}")
    return Judged(way, Verdict.RIGHT)


def _excess(session: Session, feed: int, run: int, name: str, array: Array, undecided: set[str]) -> float:
    """Return how far off a result is by the look that it passes, or the last; adds its name where no look can tell."""
    worst = 0.0
    for look in range(len(LOOKS)):
        runs = session.reaches(feed, look)
        found = runs[min(run, len(runs) - 1)][name]
        worst = found.excess(array)
        if worst <= 1:
            if not found.decides:
                undecided.add(name)
            return worst
    return worst


# -- many chains -------------------------------------------------------------------------------------------------------


@functools.cache
def engine_names() -> tuple[str, ...]:
    """Return the engines that there are for the processor."""
    return tuple(name for name in ENGINES if ENGINES[name].serves("cpu") and ENGINES[name].unavailable() is None)


def ways_of(chain: Chain, fpmath: str) -> list[Way]:
    """Return how a chain is judged: by the engines' own order, as a plan, and in float32 with one engine preferred."""
    ways = [Way("simple", fpmath), Way("plan", fpmath)]
    if not fpmath:
        able = [name for name in engine_names() if any(_has(op, name) for op in chain.ops)]
        preferred = able[chain.seed % len(able)]
        ways.extend((Way("simple", fpmath, preferred), Way("plan", fpmath, preferred)))
    return ways


def _has(op: OperatorDef, engine: str) -> bool:
    return why_unavailable(op.type, "cpu", engine) is None


def judge_chain(seed: int, fpmath: str = "") -> list[Outcome]:
    """Return what came of the chain of a seed, for each way."""
    told = f"draw_chain({seed})"
    try:
        chain = draw_chain(seed)
    except Exception as error:  # a gradient that the schemas refuse, for one
        return [Outcome(told, "", "", "", Verdict.MISMATCH, f"{type(error).__name__}: {error}")]
    ways = ways_of(chain, fpmath)
    types = " ".join(op.type for op in chain.forward)
    return [Outcome(told, types, one.way.engine, one.way.type, one.verdict, one.what) for one in judged(chain, ways)]


@part("chains")
def judge_chains(request: Request) -> Iterator[Outcome]:
    """Yield an outcome for each chain and way."""
    for number in range(request.count):
        for outcome in judge_chain(request.seed * 100_000 + number, "bf16" if request.dtype == "bfloat16" else ""):
            yield replace(outcome, number=number)
