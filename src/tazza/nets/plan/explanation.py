"""The rows of a plan: one for each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from tazza.data_class import dataclass
from tazza.nets.explanation import Explanation, Held, Placement, Row, StepWatcher, TimedPart, operator_row
from tazza.nets.plan.compiler import Region
from tazza.nets.plan.instance import Instance
from tazza.nets.plan.partition import Part, Parts
from tazza.nets.plan.program import PlanValue, Program, Step
from tazza.nets.plan.rewrite import Rewrite
from tazza.nets.plan.slices import lifetimes
from tazza.operator import Operator
from tazza.operator.estimate import estimated
from tazza.runtime.log import logger
from tazza.tensor import ROW_MAJOR, Layout, Opaque, Strided, TensorSpec, channels_last
from tazza.tensor.place import CPU_KIND


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
        tuple(_placements(running)),
    )


def _placements(running: Running) -> Iterator[Placement]:
    """Yield what lies in the arenas, by the rows in which it is needed."""
    row = arena = 0
    for part in running.cut.parts:
        instance = None if not isinstance(part, Region) else running.instances.get(part)
        if instance is None:
            row += len(part.ops) if isinstance(part, Region) else 1
            continue
        program = instance.program
        rows = _rows_of_steps(program, row)
        for value, (first, last) in lifetimes(program).items():
            span = min(rows[first : last + 1]), max(rows[first : last + 1])
            yield Placement(value.name, program.offsets[value], value.nbytes, *span, arena)
        for step, offset in program.scratch_offsets.items():
            if program.steps[step].twin is None:
                nbytes = program.steps[step].launch.scratch_bytes
                yield Placement("", offset, nbytes, rows[step], rows[step], arena)
        row, arena = max(rows, default=row - 1) + 1, arena + 1


def _rows_of_steps(program: Program, first: int) -> list[int]:
    """Return the row of each step; those of later slices have that of their twins."""
    rows: dict[int, int] = {}
    for step in program.steps:
        if step.twin is None:
            rows[id(step)] = first + len(rows)
    return [rows[id(step if step.twin is None else step.twin)] for step in program.steps]


def tell(running: Running, times: Times) -> None:
    """Add to `told` the rows of the parts that were timed since."""
    for part, (start_s, seconds) in times.taken.items():
        times.told.append(TimedPart(start_s, tuple(_rows(running, part, seconds))))
    times.taken.clear()


def tell_watchers(
    watchers: Sequence[StepWatcher], net: object, span_s: tuple[float, float], told: Sequence[TimedPart]
) -> None:
    """Tell all who watch what a run did; one that fails keeps none of the others from it."""
    for watcher in watchers:
        try:
            watcher.ran(net, *span_s, told)
        except Exception:
            logger.exception("watcher %r failed behind a run of %r", watcher, net)


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
            reads, writes = tuple(map(Held, op.input)), tuple(map(Held, op.output))
            yield Row(op.type, ", ".join(op.output), origin, definition=op, reads=reads, writes=writes)
        return
    graphs = _graphs(running, part, instance)
    for step, slices, time_s in _by_first_slice(instance.program, seconds):
        row = _row(step, () if step.is_reorder else origins[step.key], slices, time_s)
        yield replace(row, graph=graphs[id(step)]) if id(step) in graphs else row


def _graphs(running: Running, part: Region, instance: Instance) -> Mapping[int, int]:
    """Return in which graph, counted through all parts, steps of a part are that a device has recorded."""
    if instance.recorded is None:
        return {}
    earlier = running.cut.parts[: running.cut.parts.index(part)]
    known = (running.instances.get(one) for one in earlier if isinstance(one, Region))
    before = sum(len(one.recorded.graphs) for one in known if one is not None and one.recorded is not None)
    steps = instance.program.steps
    return {
        id(steps[position]): before + number
        for number, positions in enumerate(instance.recorded.graphs, 1)
        for position in positions
    }


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
    shown = ", ".join(layout_name(value.spec) for value in step.outputs[:1])
    return Row(
        "reorder" if step.is_reorder else step.op.type,
        ", ".join(value.name for value in step.outputs),
        origin,
        step.engine,
        str(getattr(step.launch, "implementation", "")),
        shown,
        sum(value.nbytes for value in step.outputs),
        time_s,
        estimated(step.choices, step.cost, on_host=step.kernel is not None and step.kernel.device == CPU_KIND),
        slices,
        definition=step.op.definition,
        reads=tuple(map(_held, step.inputs)),
        writes=tuple(map(_held, step.outputs)),
        cost=step.cost,
    )


def _held(value: PlanValue) -> Held:
    return Held(value.name, value.spec)


def layout_name(spec: TensorSpec) -> str:
    """Return how a tensor lies, in a word or two: row-major, channels-last, blocked, narrow."""
    layout: Layout = spec.layout
    if layout == ROW_MAJOR:
        return "row-major"
    if isinstance(layout, Strided) and len(spec.shape) > 2 and layout == channels_last(spec.shape):
        return "channels-last"
    if not isinstance(layout, Opaque):
        return str(layout)
    form = "blocked" if layout.nearest is None else layout_name(replace(spec, layout=layout.nearest))
    return f"{form}, narrow" if layout.nbytes < spec.nbytes else form
