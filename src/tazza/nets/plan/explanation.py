"""The rows of a plan: one for each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tazza.graph.transform import Rewritten
from tazza.nets.explanation import Explanation, Row, operator_row
from tazza.nets.plan.instance import Instance
from tazza.nets.plan.partition import Part
from tazza.nets.plan.program import Step
from tazza.operator import Operator
from tazza.proto import OperatorDef
from tazza.tensor import ROW_MAJOR, Layout, Opaque, Strided, TensorSpec, channels_last


def explain_net(
    result: Rewritten,
    parts: Sequence[Part],
    instances: Mapping[int, Instance],
    loose: Mapping[int, Operator],
    *,
    times: bool,
) -> Explanation:
    """Return the explanation of a net as it ran last."""
    origins = {_identity(op): origin for op, origin in zip(result.net.op, result.origins, strict=True)}
    rows: list[Row] = []
    arena = unshared = 0
    for number, part in enumerate(parts):
        if isinstance(part, int):
            rows.append(_loose_row(loose[part], origins))
            continue
        instance = instances.get(number)
        if instance is None:
            rows += [_unknown_row(op.type, op.output, origins.get(_identity(op), ())) for op in part.ops]
            continue
        arena += instance.program.arena.nbytes
        unshared += instance.program.arena.unshared_bytes
        seconds = instance.step_seconds() if times else [None] * len(instance.program.steps)
        for step, time in zip(instance.program.steps, seconds, strict=True):
            rows.append(_row(step, origins.get(_identity(step.op.definition), ()), time))
    return Explanation(tuple(rows), arena, unshared)


def _identity(op: OperatorDef) -> bytes:
    return op.SerializeToString(deterministic=True)


def _row(step: Step, origin: tuple[str, ...], time_s: float | None) -> Row:
    return Row(
        "reorder" if step.is_reorder else step.op.type,
        ", ".join(value.name for value in step.outputs),
        origin,
        step.engine,
        str(getattr(step.launch, "implementation", "")),
        ", ".join(_shown(value.spec) for value in step.outputs[:1]),
        sum(value.nbytes for value in step.outputs),
        time_s,
        step.choices,
    )


def _shown(spec: TensorSpec) -> str:
    layout: Layout = spec.layout
    if layout == ROW_MAJOR:
        return "row-major"
    if isinstance(layout, Strided) and len(spec.shape) > 2 and layout == channels_last(spec.shape):
        return "channels-last"
    return "blocked" if isinstance(layout, Opaque) else str(layout)


def _loose_row(operator: Operator, origins: Mapping[bytes, tuple[str, ...]]) -> Row:
    return replace(operator_row(operator), fused_from=origins.get(_identity(operator.definition), ()))


def _unknown_row(type: str, outputs: Sequence[str], origin: tuple[str, ...]) -> Row:
    return Row(type, ", ".join(outputs), origin, "not run yet", "", "", 0, None, ())
