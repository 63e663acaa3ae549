"""Nets as TensorBoard draws graphs: its message GraphDef, from a NetDef.

An operator is a node `BLOB/TYPE`, by the first blob that it writes, so that what works in place on the output of a
layer lies in one box with it. Parameters lie there too; operators of a backward pass lie under `gradients`, and what
makes use of these, such as optimizers, under `updates`. Slashes in names of blobs are boxes within boxes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tazza.data_class import dataclass
from tazza.device.option import place_of
from tazza.errors import TazzaError, UnavailableError
from tazza.graph.inference import infer_operator
from tazza.graph.roles import comes_with_data, roles_of
from tazza.graph.versions import VersionedOps, Versions
from tazza.observers.event_file import protobuf
from tazza.operator import Role, Spec
from tazza.proto import Argument, DeviceOption, NetDef, OperatorDef
from tazza.tensor import TensorSpec

GRADIENTS, UPDATES = "gradients/", "updates/"
TEXT_MAX = 200
"""Characters of an argument that are shown, and numbers of a list."""

SpecOf = Callable[[str], Spec | None]


@dataclass(slots=True)
class _Names:
    """Names of nodes, each given once."""

    given: Counter[str] = field(default_factory=Counter[str])

    def new(self, name: str) -> str:
        self.given[name] += 1
        return name if self.given[name] == 1 else f"{name}_{self.given[name]}"


def graph_def(net: NetDef, spec_of: SpecOf = lambda _: None) -> Any:
    """Return the graph of a net.

    Args:
        net: what to draw.
        spec_of: what is known of a blob as it is before the first and after the last operator.

    Raises:
        UnavailableError: the package `tensorboard` cannot be imported.
        TazzaError: an operator is not legal.
    """
    ssa = VersionedOps(net.op)
    names = _Names()
    roles = roles_of(net)
    scopes = _scopes(ssa, roles)
    nodes = [names.new(f"{scopes[place]}/{one.op.type}") for place, one in enumerate(ssa.ops)]
    made = protobuf("graph").GraphDef()
    outside = _outside(ssa, roles, scopes, names)
    for (name, _), (node, kind) in outside.items():
        _add_node(made, node, kind, shapes=[spec_of(name)])
    for place, (one, shapes) in enumerate(zip(ssa.ops, _shapes(ssa, spec_of), strict=True)):
        inputs = [_edge(ssa, nodes, outside, name, version) for name, version in one.read.items()]
        _add_node(made, nodes[place], one.op.type, inputs, shapes, one.op)
    made.versions.producer = 1
    return made


def _scopes(ssa: VersionedOps, roles: Mapping[str, frozenset[Role]]) -> list[str]:
    """Return the box of each operator; an update goes by the parameter that it writes, if it writes one."""
    found: list[str] = []
    of_gradients: set[tuple[str, int]] = set()  # what operators of the backward pass make, and what follows from these
    for one in ssa.ops:
        written = [*one.op.output, one.op.name if one.op.name else "net"]
        follows = not of_gradients.isdisjoint(one.read.items())
        if one.op.is_gradient_op or follows:
            of_gradients.update(one.written.items())
        if one.op.is_gradient_op:
            found.append(f"{GRADIENTS}{written[0]}")
        elif follows:
            learned = (name for name in written if Role.PARAMETER in roles.get(name, frozenset[Role]()))
            found.append(f"{UPDATES}{next(learned, written[0])}")
        else:
            found.append(written[0])
    return found


def _outside(
    ssa: VersionedOps, roles: Mapping[str, frozenset[Role]], scopes: Sequence[str], names: _Names
) -> dict[tuple[str, int], tuple[str, str]]:
    """Return name and kind of a node for each version of a blob that comes from outside of the net.

    What comes with data stands alone, what stays lies in the box of the operator that reads it first.
    """
    found: dict[tuple[str, int], tuple[str, str]] = {}
    for version, readers in ssa.readers.items():
        if version in ssa.writers:
            continue
        name, of_blob = version[0], roles.get(version[0], frozenset[Role]())
        kind = "Parameter" if Role.PARAMETER in of_blob else "Input" if comes_with_data(of_blob) else "State"
        box = name if kind == "Input" else f"{scopes[readers[0]]}/{name.rpartition('/')[2]}"
        found[version] = names.new(box), kind
    return found


def _edge(
    ssa: VersionedOps,
    nodes: Sequence[str],
    outside: Mapping[tuple[str, int], tuple[str, str]],
    name: str,
    version: int,
) -> str:
    place = ssa.writers.get((name, version))
    if place is None:
        return outside[name, version][0]
    outputs = list(ssa.ops[place].op.output)
    number = outputs.index(name) if name in outputs else 0
    return f"{nodes[place]}:{number}" if number else nodes[place]


def _shapes(ssa: VersionedOps, spec_of: SpecOf) -> list[list[Spec | None]]:
    """Return what is known of the outputs of each operator: what follows from its inputs, or is there at the end."""
    specs: dict[str, Spec | None] = {name: spec_of(name) for name, version in ssa.readers if not version}
    found: list[list[Spec | None]] = []
    for one in ssa.ops:
        outputs = _inferred(one, specs)
        for place, name in enumerate(one.op.output):
            if not _is_known(outputs[place]) and one.written[name] == ssa.last[name]:
                outputs[place] = spec_of(name)
            specs[name] = outputs[place]
        found.append(outputs)
    return found


def _inferred(one: Versions, specs: Mapping[str, Spec | None]) -> list[Spec | None]:
    try:
        return list(infer_operator(one.op, specs, only_declared=True).outputs)
    except TazzaError:  # it would fail on these when it runs, or needs their values
        return [None] * len(one.op.output)


def _is_known(spec: Spec | None) -> bool:
    return isinstance(spec, TensorSpec) and spec.shape_known


def _add_node(
    made: Any,
    name: str,
    kind: str,
    inputs: Sequence[str] = (),
    shapes: Sequence[Spec | None] = (),
    op: OperatorDef | None = None,
) -> None:
    node = made.node.add(name=name, op=kind, input=inputs)
    if any(map(_is_known, shapes)):
        for spec in shapes:
            shape = node.attr["_output_shapes"].list.shape.add()
            if isinstance(spec, TensorSpec) and spec.shape_known:
                for extent in spec.shape:
                    shape.dim.add(size=extent)
            else:
                shape.unknown_rank = True
    if op is None:
        return
    if op.HasField("device_option"):
        node.device = _device(op.device_option)
    if op.engine:
        node.attr["engine"].s = op.engine.encode()
    for argument in op.arg:
        node.attr[argument.name].s = _shown(argument).encode()


def _device(option: DeviceOption) -> str:
    """Return the device of an operator as graphs say it; nothing of one that tazza cannot run on."""
    try:
        place = place_of(option)
    except UnavailableError:
        return ""
    return f"/device:{place.kind.upper()}:{place.index}"


def _shown(argument: Argument) -> str:
    """Return the value of an argument as text."""
    if argument.HasField("n"):
        return f"net {argument.n.name!r} of {len(argument.n.op)} operators"
    for kind in ("i", "f"):
        if argument.HasField(kind):
            return f"{getattr(argument, kind):.9g}"
    if argument.HasField("s"):
        return argument.s.decode(errors="replace")[:TEXT_MAX]
    numbers: list[float] = [*argument.ints, *argument.floats]
    texts = [f"{number:.9g}" for number in numbers[:TEXT_MAX]]
    texts += [text.decode(errors="replace") for text in argument.strings]
    texts += [f"net {each.name!r} of {len(each.op)} operators" for each in argument.nets]
    return f"[{', '.join(texts)}]"[:TEXT_MAX]
