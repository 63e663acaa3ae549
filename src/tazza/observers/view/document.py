"""The document of a page: all that it shows of a net, as JSON.

    stages    the net as written, after each pass that changed it, and as it runs: operators and levels
    passes    each pass in turn, how often it rewrote something, and the stage behind it
    arena     what lies where in the memory of a plan, from which step to which
    timelines what ran when, in the fastest run of a profile

A stage that nothing is known of beside its operators is drawn as well: a net without its parameters can be looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from tazza.data_class import dataclass
from tazza.errors import TazzaError
from tazza.graph.inference import OperatorSpecs, infer_net
from tazza.graph.transform import TRANSFORMS, PassContext, apply_each
from tazza.nets.explanation import Explanation
from tazza.observers.profile import Profile
from tazza.observers.timeline import SpanKind
from tazza.observers.view.facts import Findings, data_of, net_drawn, rows_drawn, time_facts
from tazza.observers.view.geometry import SIZES
from tazza.observers.view.layout import Route
from tazza.observers.view.scene import Item, Kind, Level, NetDrawn, scene_of
from tazza.operator import Spec
from tazza.proto import NetDef

COLORS = 9
"""Families that have a colour of their own; the last one is that of all others."""
WRITTEN, RUNS = "as written", "as it runs"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run told of a net: its steps, and the profile of some runs."""

    explanation: Explanation
    profile: Profile


@dataclass(frozen=True, slots=True)
class Subject:
    """What a page is about.

    Attributes:
        net: the definition.
        specs: specs of blobs from outside, as far as they are known.
        parameters: those of them that are no data.
        context: what passes may take for granted; None: what the roles of the blobs tell.
        plan: what a run as a plan told.
        side_by_side: what a run told whose operators are those of `net`.
        notes: what else is to be said, such as why it did not run.
    """

    net: NetDef
    specs: Mapping[str, Spec] = field(default_factory=dict[str, Spec])
    parameters: Mapping[str, Spec | None] = field(default_factory=dict[str, "Spec | None"])
    context: PassContext | None = None
    plan: Ran | None = None
    side_by_side: Ran | None = None
    notes: Sequence[str] = ()

    @property
    def data(self) -> tuple[str, ...]:
        """The blobs from outside that are no parameters."""
        return tuple(name for name in data_of(self.net) if name not in self.parameters)


def document_of(subject: Subject, *, passes: bool = True) -> dict[str, Any]:
    """Return the document of a page, of nothing but what JSON has; without `passes` with the net as written alone."""
    making = _Making(subject)
    making.written()
    if passes:
        making.passes()
        making.runs()
    families, engines = _counted(making.stages, "f"), _counted(making.stages, "e")
    return {
        "name": subject.net.name,
        "size": SIZES.json(),
        "notes": [*subject.notes, *making.notes],
        "stages": making.stages,
        "passes": making.passed,
        "families": families,
        "engines": engines,
        "arena": _arena(subject.plan),
        "timelines": [
            _timeline(ran.profile, stage)
            for ran, stage in ((subject.side_by_side, 0), (subject.plan, len(making.stages) - 1))
            if ran is not None
        ],
    }


def _counted(stages: Sequence[dict[str, Any]], key: str) -> list[str]:
    """Return the values that facts have under a key, that of most operators first."""
    counts: dict[str, int] = {}
    for stage in stages:
        for facts in stage["ops"]:
            if key in facts:
                counts[facts[key]] = counts.get(facts[key], 0) + 1
    return sorted(counts, key=lambda value: (-counts[value], value))


class _Making:
    """Stages under way; each keeps the lanes of the one before."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.stages: list[dict[str, Any]] = []
        self.passed: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._lanes: Mapping[Hashable, int] = {}
        self._data = subject.data
        self._outputs = tuple(subject.net.external_output)

    def written(self) -> None:
        """Add the net as it was written, with what a run told of its operators."""
        ran = self.subject.side_by_side
        rows, times = (ran.explanation.rows, time_facts(ran.profile)) if ran is not None else ((), {})
        net = self.subject.net
        findings = Findings(self._specs(net, {}), self._parameters(net), rows, times)
        self._add(WRITTEN, "", net_drawn(net, findings, self._data, self._outputs))

    def passes(self) -> None:
        """Add a stage for each pass that rewrites something."""
        subject = self.subject
        context = subject.context
        if context is None:
            context = PassContext(constants=[name for name in subject.net.external_input if name not in self._data])
        try:
            for name, made in apply_each(subject.net, context):
                count = made.counts[name]
                if count:
                    findings = Findings(
                        self._specs(made.net, made.specs), self._parameters(made.net), origins=made.origins
                    )
                    self._add(name, TRANSFORMS.help(name), net_drawn(made.net, findings, self._data, self._outputs))
                entry = {"name": name, "help": TRANSFORMS.help(name), "count": count}
                self.passed.append(entry | {"stage": len(self.stages) - 1, "ops": len(self.stages[-1]["ops"])})
        except TazzaError as error:
            self.notes.append(f"passes were not applied: {error}")

    def runs(self) -> None:
        """Add the steps of a plan as they run."""
        ran = self.subject.plan
        if ran is None:
            return
        rows, times = ran.explanation.rows, time_facts(ran.profile)
        self._add(RUNS, "", rows_drawn(rows, self.subject.parameters, times, self._data, self._outputs))

    def _specs(self, net: NetDef, found: Mapping[str, Spec]) -> Sequence[OperatorSpecs]:
        try:
            return infer_net(net, {**found, **self.subject.specs}, only_declared=True)
        except TazzaError as error:
            self.notes.append(f"shapes are not known: {error}")
            return ()

    def _parameters(self, net: NetDef) -> Mapping[str, Spec | None]:
        """Return what a net reads from outside beside data, with specs where they are known."""
        outside = dict.fromkeys(name for name in net.external_input if name not in self._data)
        known: dict[str, Spec | None] = {**self.subject.specs}
        return {name: known.get(name) for name in outside} | {
            name: spec for name, spec in self.subject.parameters.items() if name not in self._data
        }

    def _add(self, name: str, help: str, drawn: NetDrawn) -> None:
        scene = scene_of(drawn, self._lanes)
        self._lanes = {**self._lanes, **scene.lanes}
        if self.stages:
            _mark_changes(self.stages[-1]["ops"], list(scene.ops))
        self.stages.append({"name": name, "help": help, "ops": list(scene.ops), "root": level_json(scene.root)})


def _mark_changes(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> None:
    """Mark operators that a pass takes away, and those that it makes, in `y`: bit 1 is made, bit 2 goes."""
    old, new = ({_content(facts) for facts in side} for side in (before, after))
    for facts in before:
        facts["y"] = facts.get("y", 0) | (0 if _content(facts) in new else 2)
    for facts in after:
        facts["y"] = 0 if _content(facts) in old else 1


def _content(facts: Mapping[str, Any]) -> str:
    """Return what an operator is, as text: type, blobs and arguments."""
    blobs = [[one[0] for one in facts[side]] for side in ("i", "o")]
    return repr((facts["t"], blobs, facts.get("a")))


# -- levels ------------------------------------------------------------------------------------------------------------


def level_json(level: Level) -> dict[str, Any]:
    """Return a level: items `i`, edges `e`, tracks beside each lane `t`, and the number of layers `n`.

    An item has its kind `k`, layer `l`, lane `n`, `r` where there is nothing to its right, and `in` a level of its own.
    """
    arrangement = level.arrangement
    items = [
        _item(item, layer, lane) | ({"r": 1} if number in arrangement.open else {})
        for number, (item, layer, lane) in enumerate(
            zip(level.items, arrangement.layers, arrangement.lanes, strict=True)
        )
    ]
    return {
        "i": items,
        "e": list(map(_edge, arrangement.routes)),
        "t": list(arrangement.tracks),
        "n": arrangement.depth,
    }


def _item(item: Item, layer: int, lane: int) -> dict[str, Any]:
    found: dict[str, Any] = {"k": item.kind.value, "l": layer, "n": lane, "id": _id(item.stays)}
    if item.op is not None:
        found["op"] = item.op
    if item.kind is not Kind.OPERATOR:
        found["name"] = item.name
    if item.times > 1:
        found["x"] = item.times
    if item.inside is not None:
        found["in"] = level_json(item.inside)
    return found


def _id(stays: Hashable) -> str:
    return " ".join(map(_id, cast("tuple[Hashable, ...]", stays))) if isinstance(stays, tuple) else str(stays)


def _edge(route: Route) -> list[int]:
    numbers = [route.source, route.target, int(route.way), route.lane, route.track]
    while len(numbers) > 2 and not numbers[-1]:
        numbers.pop()
    return numbers


# -- memory and time ---------------------------------------------------------------------------------------------------


def _arena(ran: Ran | None) -> dict[str, Any] | None:
    """Return what lies in the arenas of a plan, one behind the other."""
    if ran is None or not ran.explanation.placements:
        return None
    found = ran.explanation
    base, bases = 0, dict[int, int]()
    for number in sorted({one.arena for one in found.placements}):
        bases[number] = base
        base += max(one.offset + one.nbytes for one in found.placements if one.arena == number)
    places = [[one.name, one.offset + bases[one.arena], one.nbytes, one.first, one.last] for one in found.placements]
    sizes = {"bytes": found.arena_bytes, "unshared": found.unshared_bytes}
    return sizes | {"steps": len(found.rows), "places": places}


def _timeline(profile: Profile, stage: int) -> dict[str, Any]:
    """Return the fastest run of a profile, which others disturbed least: for each lane its spans, in µs from 0 on."""
    fastest = min(range(len(profile.runs)), key=lambda run: profile.runs[run][1] - profile.runs[run][0])
    origin_s, end_s = profile.runs[fastest]
    lanes: dict[str, list[list[Any]]] = {}
    for one in profile.occurrences:
        if one.run == fastest:
            span = [round((at_s - origin_s) * 1e6, 1) for at_s in (one.start_s, one.end_s)]
            copies = int(one.kind is SpanKind.COPY)
            lanes.setdefault(one.lane, []).append([one.step.position, *span, copies])
    spans = {lane: sorted(found, key=lambda span: span[1]) for lane, found in sorted(lanes.items())}
    title = f"{profile.headline()}; below: the fastest"
    return {
        "title": title,
        "type": profile.type,
        "us": round((end_s - origin_s) * 1e6, 1),
        "stage": stage,
        "lanes": spans,
    }
