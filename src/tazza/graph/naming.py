"""From values back to names: each value gets its old name where that is free as long as the value lives.

Pinned values come first, since their names are fixed; then the others in the order in which they are made. Two values
may share a name when one is read for the last time before the other is written, or by the very operator that writes
the other, when its schema allows that pair in place.
"""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.errors import NetError
from tazza.graph.graph import Graph, Node, Value
from tazza.operator import read_first, touches
from tazza.proto import NetDef, OperatorDef


@dataclass(slots=True)
class _Life:
    """A value, from the operator that writes it to the last one that reads it, by position."""

    value: Value
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Named:
    """Nodes in order with the operators that they became, and the name of every value."""

    nodes: tuple[Node, ...]
    hoisted: tuple[Node, ...]
    names: dict[Value, str]


def name_values(graph: Graph) -> Named:
    """Choose a name for every value that is made or read; nodes of the prelude run before all others.

    Raises:
        NetError: two values with one fixed name live at the same time: a rewrite overlooked a hazard.
    """
    nodes = graph.nodes()
    hoisted = tuple(node for node in nodes if node.hoisted)
    resting = tuple(node for node in nodes if not node.hoisted)
    lives = _lives((*hoisted, *resting), len(nodes))
    by_name: dict[str, list[_Life]] = {}
    names: dict[Value, str] = {}
    for life in lives:
        if life.value.pinned:
            _claim(life, by_name, names)
    for life in lives:
        value = life.value
        if not value.pinned:
            if any(_clash(life, other) for other in by_name.get(value.name, ())):
                value = _renamed(graph, value)
            names[life.value] = value.name
            by_name.setdefault(value.name, []).append(life)
    return Named(resting, hoisted, names)


def _lives(nodes: tuple[Node, ...], end: int) -> list[_Life]:
    lives: dict[Value, _Life] = {}
    for position, node in enumerate(nodes):
        for value in (*node.inputs, *node.unnamed[0]):
            life = lives.get(value)
            if life is None:
                life = lives[value] = _Life(value, -1, -1)
            # What the prelude makes for the net is there in every run.
            hoisted = value.producer is not None and value.producer.hoisted and not node.hoisted
            life.last = end if hoisted else max(life.last, position)
        for value in (*node.outputs, *node.unnamed[1]):
            lives[value] = _Life(value, position, position)
    for life in lives.values():
        if life.value.lasting:
            life.last = end
    return sorted(lives.values(), key=lambda life: life.first)


def _claim(life: _Life, by_name: dict[str, list[_Life]], names: dict[Value, str]) -> None:
    listed = by_name.setdefault(life.value.name, [])
    clash = next((other for other in listed if _clash(life, other)), None)
    if clash is not None:
        raise NetError(f"{clash.value} is read after {life.value} has taken its name")
    listed.append(life)
    names[life.value] = life.value.name


def _clash(one: _Life, other: _Life) -> bool:
    """Whether two values cannot share a name."""
    older, younger = (one, other) if one.first <= other.first else (other, one)
    if older.first == younger.first or older.last > younger.first:
        return True
    node = younger.value.producer
    if older.last < younger.first or node is None:
        return False
    return older.value in node.inputs and not node.may_overwrite(older.value, younger.value)


def _renamed(graph: Graph, value: Value) -> Value:
    value.name = graph.fresh(value, f"{value.name}_v{value.version}").name
    return value


def operator_of(node: Node, names: dict[Value, str]) -> OperatorDef:
    """Return the operator of a node with its blobs' names."""
    definition = OperatorDef()
    definition.CopyFrom(node.definition)
    inputs = [names[value] for value in node.inputs]
    outputs = [names[value] for value in node.outputs]
    if list(definition.input) != inputs or list(definition.output) != outputs:
        definition.ClearField("input")
        definition.ClearField("output")
        definition.input.extend(inputs)
        definition.output.extend(outputs)
    return definition


def net_of(graph: Graph, named: Named) -> NetDef:
    """Return the net without its prelude; its name, type, device and arguments are those of the first one."""
    net = NetDef()
    net.CopyFrom(graph.definition)
    net.ClearField("op")
    net.ClearField("external_input")
    net.op.extend(operator_of(node, named.names) for node in named.nodes)
    read = {name for op in net.op for name in touches(op).reads}
    consumed = {named.names[value] for node in named.hoisted for value in node.inputs if value.producer is None}
    declared = set(graph.definition.external_output)
    listed = graph.definition.external_input
    external = [name for name in listed if name in read or name not in consumed or name in declared]
    made = handed_over(named)
    if made and not listed:  # a net that lists no inputs must begin to: the list is checked as soon as there is one
        external = [name for name in graph.externals if name in read]
    net.external_input.extend(dict.fromkeys((*external, *made)))
    return net


def prelude_of(graph: Graph, named: Named) -> NetDef:
    """Return the net of operators that depend on constants only."""
    net = NetDef(name=f"{graph.definition.name}_prelude")
    if graph.definition.HasField("device_option"):
        net.device_option.CopyFrom(graph.definition.device_option)
    net.op.extend(operator_of(node, named.names) for node in named.hoisted)
    net.external_input.extend(read_first(net.op))
    net.external_output.extend(handed_over(named))
    return net


def handed_over(named: Named) -> list[str]:
    """Return the blobs that the prelude makes and the net reads."""
    made = {value for node in named.hoisted for value in node.outputs}
    return list(dict.fromkeys(named.names[v] for node in named.nodes for v in node.inputs if v in made))
