"""Which operators of a net are compiled together, and which run one by one.

An operator runs by itself (it is *loose*) when its kernel works on blobs and the workspace, when a blob of it holds no
tensor, when the size of an output depends on data, or when it may work across devices; on a device also when it reads
nothing there, but numbers of the host, since these are there before the region. A loose operator ends a region,
unless it can run before all of it: it reads and writes nothing that the region's operators write, and writes nothing
that they read. The operators of a region stand on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tazza.data_class import dataclass
from tazza.device import place_of
from tazza.nets.plan.compiler import Region
from tazza.operator import Touched, find_schema, rank_engines, read_first, touches, why_unavailable
from tazza.operator.choice import find_kernel
from tazza.proto import OperatorDef

Part = Region | int
"""A region, or the position of a loose operator."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A net in parts, in the order in which they run."""

    parts: tuple[Part, ...]
    crossing: frozenset[str]


def why_loose(definition: OperatorDef) -> str | None:
    """Return why an operator runs by itself, or None."""
    schema = find_schema(definition.type)
    place = place_of(definition.device_option)
    op = schema.view(definition)
    used = [schema.inputs_by_letter[letter] for letter in op.input_letters]
    made = [schema.outputs_by_letter[letter] for letter in op.output_letters]
    if not place.is_host and schema.inputs_can_cross_devices:
        return "a blob of it may lie on another device"
    if not place.is_host and any(blob.host for blob in (*used, *made)) and all(blob.host for blob in used):
        return "it reads nothing of the device"
    if not all(blob.only_tensors for blob in (*used, *made)):
        return "a blob of it holds no tensor"
    if any(blob.dynamic for blob in made):
        return "the size of its output depends on data"
    for candidate in rank_engines(definition.type, place.kind, definition.engine):
        if why_unavailable(definition.type, place.kind, candidate.engine) is None:
            if find_kernel(definition.type, place.kind, candidate.engine).host is not None:
                return "its kernel works on the workspace"
            break
    return None


def partition(
    ops: Sequence[OperatorDef],
    *,
    survivors: Collection[str],
    constants: Collection[str],
    loose: Callable[[int, OperatorDef], bool],
    origins: Sequence[tuple[str, ...]],
    keys: Sequence[str],
) -> Parts:
    """Cut a net into regions and loose operators.

    Args:
        ops: in execution order.
        survivors: blobs whose last value is needed after the run.
        constants: external inputs that change seldom.
        loose: whether the operator at a position runs by itself.
        origins: for each operator what it was made from.
        keys: those of `Rewrite`.
    """
    touched = [touches(op) for op in ops]
    groups: list[list[int] | int] = []
    region: list[int] = []
    start = 0
    for position, op in enumerate(ops):
        if not loose(position, op):
            if region and place_of(ops[region[0]].device_option) != place_of(op.device_option):
                groups.append(region)
                region, start = [], len(groups)
            region.append(position)
            continue
        if any(_conflict(touched[other], touched[position]) for other in region):
            groups.append(region)
            region = []
            groups.append(position)
            start = len(groups)
        else:
            groups.insert(start, position)
            start += 1
    if region:
        groups.append(region)
    return _regions(ops, groups, frozenset(survivors), frozenset(constants), (origins, keys))


def _made_on_host(ops: Sequence[OperatorDef]) -> frozenset[str]:
    """Return what operators of one device make elsewhere."""
    place = place_of(ops[0].device_option)
    found: set[str] = set()
    for op in ops if not place.is_host else ():
        schema = find_schema(op.type)
        places = schema.infer_places(schema.view(op), place)[1]
        found.update(name for name, at in zip(op.output, places, strict=True) if at.is_host)
    return frozenset(found)


def _conflict(first: Touched, second: Touched) -> bool:
    """Whether two operators have to stay in order."""
    return not set(first.writes).isdisjoint(second.named) or not set(first.named).isdisjoint(second.writes)


def _regions(
    ops: Sequence[OperatorDef],
    groups: Sequence[list[int] | int],
    survivors: frozenset[str],
    constants: frozenset[str],
    names: tuple[Sequence[tuple[str, ...]], Sequence[str]],
) -> Parts:
    members = [[group] if isinstance(group, int) else group for group in groups]
    reads = [read_first(ops[i] for i in group) for group in members]
    parts: list[Part] = []
    crossing: set[str] = set()
    needed: set[str] = set(survivors)
    for group, inputs in reversed(list(zip(groups, reads, strict=True))):
        if isinstance(group, int):
            parts.append(group)
        else:
            own = tuple(ops[i] for i in group)
            # What is made on the host beside a device has a blob: the arena is the device's.
            outputs = frozenset(name for op in own for name in op.output) & needed | _made_on_host(own)
            crossing |= outputs
            made_from, keys = tuple(names[0][i] for i in group), tuple(names[1][i] for i in group)
            parts.append(Region(own, inputs, outputs, constants & frozenset(inputs), made_from, keys, tuple(group)))
        needed |= set(inputs)
    return Parts(tuple(reversed(parts)), frozenset(crossing))
