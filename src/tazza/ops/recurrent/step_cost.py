"""What the steps of a recurrent network cost: that of one, by the shapes that its blobs have, as often as it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tazza.operator import Cost, OpView, Spec, find_schema
from tazza.ops.recurrent.recurrence import Link, initial_rows, states_of
from tazza.proto import NetDef
from tazza.tensor import DataType, TensorSpec, TypeSpec


def over_time(op: OpView, names: Sequence[str], given: Sequence[Spec]) -> dict[str, Spec | None]:
    """Return the specs of the inputs of a forward operator, by name, and of the states over time."""
    found: dict[str, Spec | None] = dict(zip(names, given, strict=False))
    for state in states_of(op, names):
        X, initial = given[0], found[state.initial]
        if isinstance(X, TensorSpec) and isinstance(initial, TensorSpec):
            rows = X.shape[0] + initial_rows(initial.shape)
            found[state.states] = TensorSpec((rows, X.shape[1], initial.shape[-1]), initial.dtype)
    return found


def linked(links: Iterable[Link], outside: Mapping[str, Spec | None]) -> dict[str, Spec | None]:
    """Return the specs of blobs in a step that lie on rows of blobs outside; of those outside as well."""
    found = dict(outside)
    for link in links:
        spec = outside.get(link.external)
        if isinstance(spec, TensorSpec) and spec.dims is not None:
            found[link.internal] = TensorSpec((link.window, *spec.dims[1:]), spec.dtype)
    return found


def cost_of_steps(op: OpView, count: int, net: NetDef, specs: dict[str, Spec | None]) -> Cost:
    """Return the cost of `count` runs of a net, and put the specs that follow for its blobs among `specs`.

    An operator whose shapes depend on values counts nothing, and so does what reads what it makes.
    """
    total = Cost()
    specs[op.timestep] = TensorSpec((1,), DataType.INT32)
    for definition in net.op:
        view = find_schema(definition.type).view(definition)
        inputs = [specs.get(name) for name in definition.input]
        outputs = view.schema.infer_specs(view, inputs).specs
        specs.update(zip(definition.output, outputs, strict=True))
        if not any(_unknown(spec) for spec in (*inputs, *outputs)):
            total += view.schema.infer_cost(view, inputs, [spec for spec in outputs if spec is not None])
    return Cost(count * total.flops, count * total.bytes_read, count * total.bytes_written, total.parameter_bytes)


def _unknown(spec: Spec | None) -> bool:
    return spec is None or (not isinstance(spec, TypeSpec) and not spec.shape_known)
