"""The rows of a plan: one for each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tazza.nets.explanation import Explanation, Row, operator_row
from tazza.nets.plan.compiler import Region
from tazza.nets.plan.instance import Instance
from tazza.nets.plan.partition import Parts
from tazza.nets.plan.program import Program, Step
from tazza.nets.plan.rewrite import Rewrite
from tazza.operator import Operator
from tazza.tensor import ROW_MAJOR, Layout, Opaque, Strided, TensorSpec, channels_last

Times: TypeAlias = "dict[Region, list[float]]"
"""Seconds of each step of a region's program."""


def explain_net(
    rewrite: Rewrite, cut: Parts, instances: Mapping[Region, Instance], loose: Mapping[str, Operator], times: Times
) -> Explanation:
    """Return the explanation of a net as it ran last; `times` has what steps took, where they were timed."""
    result = rewrite.result
    origins = dict(zip(rewrite.keys, result.origins, strict=True))
    rows: list[Row] = []
    arena = unshared = 0
    for part in cut.parts:
        if not isinstance(part, Region):
            key = rewrite.keys[part]
            rows.append(replace(operator_row(loose[key]), fused_from=origins[key]))
            continue
        instance = instances.get(part)
        if instance is None:
            pairs = zip(part.ops, part.origins, strict=True)
            rows += [_unknown_row(op.type, op.output, origin) for op, origin in pairs]
            continue
        arena += instance.program.arena.nbytes
        unshared += instance.program.arena.unshared_bytes
        for step, slices, time_s in _by_first_slice(instance.program, times.get(part)):
            rows.append(_row(step, () if step.is_reorder else origins[step.key], slices, time_s))
    return Explanation(tuple(rows), arena, unshared)


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
