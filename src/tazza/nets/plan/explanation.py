"""The rows of a plan: one for each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tazza.nets.explanation import Explanation, Row, TimedPart, operator_row
from tazza.nets.plan.compiler import Region
from tazza.nets.plan.instance import Instance
from tazza.nets.plan.partition import Part, Parts
from tazza.nets.plan.program import Program, Step
from tazza.nets.plan.rewrite import Rewrite
from tazza.operator import Operator
from tazza.tensor import ROW_MAJOR, Layout, Opaque, Strided, TensorSpec, channels_last


@dataclass(slots=True)
class Times:
    """What was timed of one run: for each part when it began and the seconds of its steps; and rows of what was cut.

    A net that has to be cut anew while it runs tells before of the parts that ran, in `told`.
    """

    taken: dict[Part, tuple[float, list[float]]] = field(default_factory=dict["Part", "tuple[float, list[float]]"])
    told: list[TimedPart] = field(default_factory=list[TimedPart])

    def seconds(self, part: Part) -> list[float] | None:
        """Return the seconds of each step of a part, None where it was not timed."""
        found = self.taken.get(part)
        return None if found is None else found[1]


@dataclass(frozen=True, slots=True)
class Running:
    """A rewritten net as it runs: its parts, and what runs them."""

    rewrite: Rewrite
    cut: Parts
    instances: Mapping[Region, Instance]
    loose: Mapping[str, Operator]


def explain_net(running: Running, times: Times) -> Explanation:
    """Return the explanation of a net as it ran last; `times` has what steps took, where they were timed."""
    regions = [part for part in running.cut.parts if isinstance(part, Region) and part in running.instances]
    programs = [running.instances[region].program for region in regions]
    return Explanation(
        tuple(row for part in running.cut.parts for row in _rows(running, part, times.seconds(part))),
        sum(program.arena.nbytes for program in programs),
        sum(program.arena.unshared_bytes for program in programs),
        len(running.rewrite.result.prelude.op),
    )


def tell(running: Running, times: Times) -> None:
    """Add to `told` the rows of the parts that were timed since."""
    for part, (start_s, seconds) in times.taken.items():
        times.told.append(TimedPart(start_s, tuple(_rows(running, part, seconds))))
    times.taken.clear()


def _rows(running: Running, part: Part, seconds: list[float] | None) -> Iterator[Row]:
    rewrite = running.rewrite
    origins = dict(zip(rewrite.keys, rewrite.result.origins, strict=True))
    if not isinstance(part, Region):
        key, time_s = rewrite.keys[part], None if seconds is None else seconds[0]
        yield replace(operator_row(running.loose[key]), fused_from=origins[key], time_s=time_s)
        return
    instance = running.instances.get(part)
    if instance is None:
        for op, origin in zip(part.ops, part.origins, strict=True):
            yield _unknown_row(op.type, op.output, origin)
        return
    for step, slices, time_s in _by_first_slice(instance.program, seconds):
        yield _row(step, () if step.is_reorder else origins[step.key], slices, time_s)


def _by_first_slice(program: Program, times: Sequence[float] | None) -> Iterator[tuple[Step, int, float | None]]:
    """Yield each step, but those of later slices; how many slices there are, and what all of them took."""
    repeated = Counter(id(step.twin) for step in program.steps if step.twin is not None)
    total = dict.fromkeys(map(id, program.steps), 0.0)
    for step, time_s in zip(program.steps, times if times is not None else ()):  # noqa: B905 -- none were taken
        total[id(step if step.twin is None else step.twin)] += time_s
    for step in program.steps:
        if step.twin is None:
            yield step, 1 + repeated[id(step)], None if times is None else total[id(step)]


def _row(step: Step, origin: tuple[str, ...], slices: int, time_s: float | None) -> Row:
    shown = ", ".join(_shown(value.spec) for value in step.outputs[:1])
    return Row(
        "reorder" if step.is_reorder else step.op.type,
        ", ".join(value.name for value in step.outputs),
        origin,
        step.engine,
        str(getattr(step.launch, "implementation", "")),
        shown,
        sum(value.nbytes for value in step.outputs),
        time_s,
        step.choices,
        slices,
    )


def _shown(spec: TensorSpec) -> str:
    layout: Layout = spec.layout
    if layout == ROW_MAJOR:
        return "row-major"
    if isinstance(layout, Strided) and len(spec.shape) > 2 and layout == channels_last(spec.shape):
        return "channels-last"
    if not isinstance(layout, Opaque):
        return str(layout)
    form = "blocked" if layout.nearest is None else _shown(replace(spec, layout=layout.nearest))
    return f"{form}, narrow" if layout.nbytes < spec.nbytes else form


def _unknown_row(type: str, outputs: Sequence[str], origin: tuple[str, ...]) -> Row:
    return Row(type, ", ".join(outputs), origin, "not run yet", "", "", 0, None, ())
