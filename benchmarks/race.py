"""One race: every contender starts, results are compared, then rounds, in which one runs and all others stand still."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contestant import Contestant, ContestantError
from benchmarks.job import BFLOAT16, ONNX_FILE, Job
from benchmarks.lineup import AGAIN, Contender, Work
from benchmarks.prepare import Prepared, prepare
from benchmarks.result import Entry, Race

ROOT = Path(__file__).parent.parent

TOLERANCES = {False: 1e-3, True: 0.1}
"""Largest difference of results, as a share of the span of the reference, by whether bfloat16 was allowed."""
LOSS_TOLERANCE = 1e-2
"""Of the losses of the first steps; the reference's largest is 1."""
TRAINING_STEPS = 3
"""Steps whose losses are compared: the third depends on all gradients of two updates."""
MORE_ROUNDS = 20
"""On a machine that changes its speed every few seconds, five turns of each tell little; short ones are cheap."""
LONG_RUN_S = 0.3
"""Runs that take longer need no warm-up: what lies in caches is gone anyway."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How races are run."""

    out: Path
    peers_python: str = sys.executable
    threads: int = 2
    rounds: int = 5
    """At least so many turns of each contender, and at most `MORE_ROUNDS` times as many, while `race_s` lasts."""
    race_s: float = 40.0
    seconds: float = 0.1
    """A turn lasts that long, or one run."""
    starts: int = 3
    """Fresh processes whose first result is timed, for contenders that start within `quick_start_s`."""
    quick_start_s: float = 1.5
    start_timeout_s: float = 300.0
    turn_timeout_s: float = 120.0
    net_type: str = "plan"
    flags: Sequence[str] = ()
    control: bool = True


Report = Callable[[str], None]
"""Told in a few words what is being done."""


def run_race(work: Work, contenders: Sequence[Contender], settings: Settings, report: Report) -> Race:
    """Run one race. What a contender cannot do is told in its entry; the others go on."""
    report("preparing the net")
    prepared = prepared_net(work, settings)
    runners = [each for each in contenders if each.does(work)]
    if settings.control:
        runners.insert(1, replace(runners[0], name=runners[0].name + AGAIN))
    make_onnx(prepared, runners, settings)
    entries = [Entry(contender.name) for contender in runners]
    race = Race(work, prepared.flops(work.batch), entries)
    results: dict[str, NDArray[Any]] = {}
    with ExitStack() as stack:
        living: list[tuple[Contender, Entry, Contestant]] = []
        for contender, entry in zip(runners, entries, strict=True):
            report(f"starting {contender.name}")
            contestant = _start(work, contender, entry, settings, results)
            if contestant is not None:
                stack.enter_context(contestant)
                living.append((contender, entry, contestant))
        compare(race, results)
        _run_rounds(work, living, settings, report)
        for _, entry, contestant in living:
            if not entry.failure:
                _attempt(entry, lambda c=contestant, e=entry: e.memory.update(c.ask({"do": "memory"}, 30)))
    return race


def prepared_net(work: Work, settings: Settings) -> Prepared:
    """Return the net of a work, with inputs."""
    nets = settings.out / "nets"
    nets.mkdir(parents=True, exist_ok=True)
    prepared = prepare(work.net, nets / work.folder, training=work.training, options=work.options)
    prepared.write_inputs(work.batch)
    return prepared


def make_onnx(prepared: Prepared, runners: Sequence[Contender], settings: Settings) -> None:
    """Write the ONNX model of a net, if a contender needs it and it is not there."""
    wanted = any("onnx" in contender.needs for contender in runners)
    if wanted and not (prepared.folder / ONNX_FILE).exists():
        command = [settings.peers_python, "-m", "benchmarks.onnx_net", str(prepared.folder)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


# -- starting ----------------------------------------------------------------------------------------------------------


def _start(
    work: Work, contender: Contender, entry: Entry, settings: Settings, results: dict[str, NDArray[Any]]
) -> Contestant | None:
    """Start a contender, several times if it is quick; return the last process, stopped, or None if it failed."""
    file = settings.out / "results" / f"{work.name}-{contender.name.replace(' ', '-')}.npy"
    file.parent.mkdir(parents=True, exist_ok=True)
    request = {"do": "start", "results": str(file), "runs": TRAINING_STEPS if work.training else 1}
    for count in range(settings.starts):
        contestant = start_contestant(work, contender, settings)
        answer: dict[str, Any] = {}
        _attempt(entry, lambda c=contestant, a=answer: a.update(c.ask(request, settings.start_timeout_s)))
        if entry.failure:
            contestant.close()
            return None
        entry.note = str(answer.pop("note"))
        entry.starts.append(answer)
        if (
            count == settings.starts - 1
            or answer["first_result_s"] > settings.quick_start_s
            or AGAIN in entry.contender
        ):
            contestant.pause()
            results[entry.contender] = np.load(file)
            return contestant
        contestant.close()
    return None


def start_contestant(
    work: Work, contender: Contender, settings: Settings, environment: Mapping[str, str] | None = None
) -> Contestant:
    """Start a process for a contender, with these variables of the environment beside the usual ones."""
    given = dict(contender.settings)
    if contender.own:
        given = {"net_type": settings.net_type, "flags": [*settings.flags, *given.get("flags", ())]}
    folder = settings.out / "nets" / work.folder
    job = Job(str(folder), work.batch, work.training, work.precision, settings.threads, settings=given)
    python = sys.executable if contender.own else settings.peers_python
    return Contestant(
        [python, "-m", "benchmarks.worker", f"benchmarks.contenders.{contender.module}", job.text()],
        folder=ROOT,
        log=settings.out / "logs" / f"{work.name}-{contender.name.replace(' ', '-')}.log",
        environment={
            "OMP_NUM_THREADS": str(settings.threads),
            **_sources(contender),
            **({} if environment is None else environment),
        },
    )


def _sources(contender: Contender) -> dict[str, str]:
    """Return what makes Python import tazza from the tree of a contender."""
    return {"PYTHONPATH": str(Path(contender.tree).resolve() / "src")} if contender.tree else {}


def _attempt(entry: Entry, action: Callable[[], object]) -> None:
    try:
        action()
    except ContestantError as error:
        entry.failure = str(error)


# -- comparing ---------------------------------------------------------------------------------------------------------


def compare(race: Race, results: dict[str, NDArray[Any]]) -> None:
    """Compare all results with those of the first peer (of tazza without one); who differs fails, and is not timed."""
    names = [entry.contender for entry in race.entries if entry.contender in results]
    peers = [entry.contender for entry in race.entries if entry.peer and entry.contender in results]
    if not names:
        return
    race.reference = peers[0] if peers else names[0]
    wanted = results[race.reference]
    tolerance = LOSS_TOLERANCE if race.work.training else TOLERANCES[race.work.precision == BFLOAT16]
    for entry in race.entries:
        if entry.contender in results:
            entry.error = difference(results[entry.contender], wanted, training=race.work.training)
            if not entry.error <= tolerance:
                entry.failure = f"results differ from those of {race.reference} by {entry.error:.2g} of their span"


def difference(found: NDArray[Any], wanted: NDArray[Any], *, training: bool) -> float:
    """Return the largest difference over the span of `wanted` (of losses: over the largest); infinite for NaN.

    >>> difference(np.float32([1, 2.5]), np.float32([1, 3]), training=False)
    0.25
    """
    if found.shape != wanted.shape:
        return float("inf")
    span = float(np.max(np.abs(wanted)) if training else np.max(wanted) - np.min(wanted))
    worst = float(np.max(np.abs(found.astype(np.float64) - wanted))) / max(span, 1e-30)
    return worst if np.isfinite(worst) else float("inf")


# -- rounds ------------------------------------------------------------------------------------------------------------


def _run_rounds(
    work: Work, living: Sequence[tuple[Contender, Entry, Contestant]], settings: Settings, report: Report
) -> None:
    """Let each contender run once a round, in an order that changes from round to round."""
    order = random.Random(work.name)
    began = time.monotonic()
    for number in range(settings.rounds * MORE_ROUNDS):
        if number >= settings.rounds and time.monotonic() - began > settings.race_s:
            return
        turns = list(living)
        order.shuffle(turns)
        for _, entry, contestant in turns:
            if not entry.failure:
                report(f"round {number + 1}: {entry.contender}")
                _attempt(entry, lambda c=contestant, e=entry: _turn(c, e, settings))
                contestant.pause()


def _turn(contestant: Contestant, entry: Entry, settings: Settings) -> None:
    long = entry.median_s is not None and entry.median_s > LONG_RUN_S
    request = {"do": "time", "seconds": settings.seconds, "warm": 0.0 if long else settings.seconds / 5}
    answer = contestant.ask(request, settings.turn_timeout_s)
    entry.medians_s.append(float(answer["median_s"]))
    entry.runs += int(answer["runs"])
    least = float(answer["least_s"])
    entry.least_s = least if entry.least_s is None else min(entry.least_s, least)
