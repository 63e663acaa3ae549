"""A net as a graph: nodes are operators, edges are versions of blobs (static single assignment).

    net -> Graph.of -> transforms change nodes and values -> to_net

A `Value` is one version of one blob: made by one node, or from outside, and read by some. Since a value has no other
identity than itself, a rewrite cannot be led astray by a name that is written again; names come back in `to_net`
(`graph.naming`): a value gets its old name wherever that is free while the value lives, and a new one elsewhere.

Some names are fixed (`pinned`): external inputs, what must survive, both ends of a forced in-place pair, outputs of
operators that keep state in blobs, and what nets within operators, or control inputs, mention. Where two pinned values
share a name, the older one is gone as soon as the younger is written; `available` is the question that a rewrite must
ask before it lets a node read a value later than it did.

Changing state: everything; a graph belongs to one thread. Invariants: `value.producer` is active, None (from outside)
or the value is neither read nor kept; `value.readers` are active nodes, each once; inputs stand before their readers
in `order`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tazza.data_class import dataclass
from tazza.device import merge, place_of
from tazza.errors import NetError, TazzaError
from tazza.graph.versions import VersionedOps
from tazza.operator import (
    Effects,
    Expression,
    OpView,
    Spec,
    effects_of,
    find_schema,
    make_argument,
    may_overwrite,
    must_overwrite,
)
from tazza.operator.touches import touched_within
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.tensor import Place, TensorSpec

Order = tuple[int, ...]
"""Place of a node: what replaces the node at (3,) stands at (3, 0), (3, 1) ..., before (4,)."""

OUTSIDE: Order = (-1,)


@dataclass(frozen=True, slots=True)
class PassContext:
    """What transforms may take for granted.

    Args:
        constants: external inputs that do not change between runs; those that the net writes do not count.
        keep: blobs whose last value must survive, beside external outputs and external inputs that the net writes.
            When there is neither an output nor one of these, what nobody reads survives.
        specs: specs of external inputs.
        takes_epilogue: whether some engine computes a fused operator type with this epilogue well on a kind of device;
            without it all epilogues are thought to be.
        takes_operator: whether some engine gains by an operator that would stand for several; its inputs' specs are
            given where they are known, and its kind of device. Without it all are thought to.
    """

    constants: Collection[str] = frozenset()
    keep: Collection[str] = frozenset()
    specs: Mapping[str, Spec] = field(default_factory=dict[str, Spec])
    takes_epilogue: Callable[[str, Expression, str], bool] | None = None
    takes_operator: Callable[[OpView, Sequence[Spec | None], str], bool] | None = None


class Value:
    """One version of a blob.

    `kept`: must be there after the run, or for somebody who is no node. `pinned`: must have its own name. `constant`:
    the same in every run. `lasting`: lives until the net ends, since it is kept or comes from outside.
    """

    __slots__ = ("constant", "kept", "lasting", "name", "pinned", "producer", "readers", "spec", "version")

    def __init__(self, name: str, version: int = 0) -> None:
        """Start without producer and readers."""
        self.name = name
        self.version = version
        self.producer: Node | None = None
        self.readers: list[Node] = []
        self.kept = False
        self.pinned = False
        self.constant = False
        self.lasting = False
        self.spec: Spec | None = None

    def __repr__(self) -> str:
        return f"{self.name}.{self.version}"

    @property
    def order(self) -> Order:
        """Where it is made."""
        return OUTSIDE if self.producer is None else self.producer.order

    @property
    def only_reader(self) -> Node | None:
        """The one node that reads it, when nobody else needs it."""
        return self.readers[0] if len(self.readers) == 1 and not self.kept else None

    @property
    def tensor(self) -> TensorSpec | None:
        """Its spec where that is one of a tensor with known shape."""
        return self.spec if isinstance(self.spec, TensorSpec) and self.spec.shape_known else None


class Node:
    """One operator. `definition` has its type, arguments, device ...; which blobs it reads and writes is in the values.

    `origins` tells which operators of the first net it stands for. `hoisted`: it depends on constants only and belongs
    to the prelude. `unnamed` are values that nets within read, and write, without the definition saying so.
    """

    __slots__ = (
        "active",
        "definition",
        "device",
        "hoisted",
        "inputs",
        "order",
        "origins",
        "outputs",
        "pure",
        "unnamed",
        "view",
    )

    def __init__(
        self, view: OpView, inputs: Sequence[Value], outputs: Sequence[Value], order: Order, pure: bool
    ) -> None:
        """Made by `Graph`, which joins it to its values."""
        self.unnamed: tuple[tuple[Value, ...], tuple[Value, ...]] = (), ()
        self.view = view
        self.definition = view.definition
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.order = order
        self.pure = pure
        self.active = True
        self.hoisted = False
        self.origins: tuple[str, ...] = ()
        self.device = _device_key(view.definition.device_option)

    def __repr__(self) -> str:
        state = "" if self.active else ", inactive"
        return f"Node({self.outputs} = {self.type}{self.inputs} at {self.order}{state})"

    @property
    def type(self) -> str:
        """The operator type."""
        return self.definition.type

    @property
    def place(self) -> Place:
        """Where it runs.

        Raises:
            UnavailableError: a device type that tazza cannot run on.
        """
        kind, index, _ = self.device
        return place_of(DeviceOption(device_type=kind, device_id=index))

    def input(self, letter: str) -> Value | None:
        """Return the (first) value that stands for an input letter, None where it is absent."""
        letters = self.view.input_letters
        return self.inputs[letters.index(letter)] if letter in letters else None

    def output(self, letter: str) -> Value | None:
        """Return the (first) value that stands for an output letter, None where it is absent."""
        letters = self.view.output_letters
        return self.outputs[letters.index(letter)] if letter in letters else None

    def may_overwrite(self, source: Value, target: Value) -> bool:
        """Whether the schema lets this node write its output `target` over all that it reads of `source`."""
        if target in self.unnamed[1]:  # a net within says what it does itself
            return True
        allowed = may_overwrite(self.view, self.outputs.index(target))
        return all(place in allowed for place, value in enumerate(self.inputs) if value is source)


class Graph:
    """The nodes and values of one net; see the module."""

    def __init__(self, definition: NetDef, context: PassContext) -> None:
        """Made by `of`."""
        self.definition = definition
        self.context = context
        self.pinned: dict[str, list[Value]] = {}
        self.last: dict[str, Value] = {}
        self.externals: dict[str, Value] = {}
        self.names: set[str] = {*definition.external_input, *definition.external_output}
        self.reasons: dict[Value, tuple[str, Value | None]] = {}
        self.equals: dict[Value, Value] = {}
        self.relied: set[str] = set()
        self._nodes: list[Node] = []

    @staticmethod
    def of(net: NetDef, context: PassContext | None = None) -> Graph:
        """Return the graph of a net, whose operators are all checked against their schemas.

        >>> from tazza.graph.text import parse_net
        >>> graph = Graph.of(parse_net("y = Relu(x)", "y = Relu(y)"))
        >>> graph.nodes()[1].inputs[0].only_reader
        Node((y.1,) = Relu(y.0,) at (1,))

        Raises:
            TazzaError: an operator is not legal, or shapes do not fit.
        """
        graph = Graph(net, PassContext() if context is None else context)
        ssa = VersionedOps(net.op)
        values: dict[tuple[str, int], Value] = {}

        def value(name: str, version: int) -> Value:
            return values.setdefault((name, version), Value(name, version))

        hidden: set[str] = set()  # what somebody touches who does not name it
        for position, versions in enumerate(ssa.ops):
            op = versions.op
            inputs = [value(name, versions.read[name]) for name in op.input]
            view = _view(net, position, op)
            outputs = [value(name, versions.written[name]) for name in op.output]
            node = Node(view, inputs, outputs, (position,), effects_of(view) is Effects.PURE)
            if net.HasField("device_option"):
                node.device = _device_key(merge(net.device_option, op.device_option))
            node.origins = (f"{op.type} {op.output[0]!r}" if op.output else op.type,)
            read = tuple(value(name, version) for name, version in versions.read.items() if name not in op.input)
            made = tuple(value(name, version) for name, version in versions.written.items() if name not in op.output)
            node.unnamed = read, made
            inner = touched_within(view).named
            if inner or op.control_input:
                hidden.update(op.control_input, inner)
                node.pure = False
            graph._join(node)
        graph.names.update(name for name, _ in values)
        graph._mark(values, ssa.last, hidden)
        graph._infer()
        return graph

    # -- what is asked of a graph --------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """Return the active nodes in the order in which they run, those of the prelude among them."""
        self._nodes = sorted((node for node in self._nodes if node.active), key=lambda node: node.order)
        return list(self._nodes)

    def available(self, value: Value, at: Order, but: Node | None = None) -> bool:
        """Whether a node at `at` can read `value`: it is made by then, and nobody `but` one overwrote its name."""
        if value.order >= at:
            return False
        return not value.pinned or not any(
            value.order < other.order < at and other.producer is not but for other in self.pinned[value.name]
        )

    def movable(self, node: Node, to: Order, among: Collection[Node] = ()) -> bool:
        """Whether `node` may run at `to`, later than now: inputs are there still, no reader but `among` is before."""
        return (
            node.pure
            and all(self.available(value, to, node) for value in node.inputs)
            and all(reader in among or reader.order > to for value in node.outputs for reader in value.readers)
            and not any(self._read_under_name(value, node.order, to) for value in node.outputs if value.pinned)
        )

    def dies_at(self, value: Value, node: Node) -> bool:
        """Whether nobody needs `value` any more once `node` has run, so that its memory may be used anew."""
        maker = value.producer
        return (
            maker is not None
            and not maker.hoisted
            and not (value.lasting or value.pinned)
            and all(reader.order <= node.order for reader in value.readers)
        )

    def present(self, value: Value) -> Value:
        """Return the value that stands for `value` by now: itself, or an equal one that it was merged with."""
        while value in self.equals:
            value = self.equals[value]
        return value

    def reason(self, value: Value) -> str:
        """Return why a value is no longer there."""
        text, into = self.reasons.get(value, ("removed", None))
        seen = {value}
        while into is not None and into in self.reasons and into not in seen and not _is_made(into):
            seen.add(into)
            _, into = self.reasons[into]
        if into is None:
            return text
        maker = "" if into.producer is None else f"{into.producer.type} "
        return f"{text} {maker}{into.name!r}"

    # -- what changes it -----------------------------------------------------------------------------------------------

    def add(
        self,
        type: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        *,
        like: Node,
        order: Order,
        origins: Iterable[str] = (),
        copy_arguments: bool = True,
        **arguments: Any,
    ) -> Node:
        """Add a node that runs where and how `like` does: its device, engine, name, and (`copy_arguments`) arguments.

        `outputs` may be values that a removed node made: then this one makes them.

        Raises:
            TazzaError: the schema refuses it.
        """
        old = like.definition
        definition = OperatorDef(type=type, name=old.name)
        definition.input.extend(map(_label, inputs))
        definition.output.extend(map(_label, outputs))
        for name in ("engine", "debug_info", "is_gradient_op"):
            if old.HasField(name):  # pyright: ignore[reportArgumentType] -- names of fields
                setattr(definition, name, getattr(old, name))
        if old.HasField("device_option"):
            definition.device_option.CopyFrom(old.device_option)
        definition.arg.extend(make_argument(key, value) for key, value in arguments.items() if value is not None)
        if copy_arguments:
            definition.arg.extend(argument for argument in old.arg if argument.name not in arguments)
        view = find_schema(type).view(definition)
        view.runs_on = like.view.runs_on
        node = Node(view, inputs, outputs, order, effects_of(view) is Effects.PURE)
        node.device = like.device
        node.origins = tuple(origins)
        self._join(node)
        if any(value.spec is None for value in node.outputs) and self.context.specs:
            self._infer_node(node)
        self._mark_constant(node)
        return node

    def fresh(self, like: Value, name: str, spec: Spec | None = None) -> Value:
        """Return a new value, named `name` or like it; `like` only lends its spec when none is given."""
        chosen, number = name, 2
        while chosen in self.names:
            chosen, number = f"{name}_{number}", number + 1
        self.names.add(chosen)
        made = Value(chosen)
        made.spec = like.spec if spec is None else spec
        return made

    def remove(self, *nodes: Node) -> None:
        """Make nodes inactive; what they wrote has to be made, or no longer read, by the end of the rewrite."""
        for node in nodes:
            node.active = False
            for value in set(node.inputs):
                value.readers.remove(node)

    def redirect(self, old: Value, new: Value) -> None:
        """Let all readers of `old` read `new`."""
        for reader in list(old.readers):
            reader.inputs = tuple(new if value is old else value for value in reader.inputs)
            if reader not in new.readers:
                new.readers.append(reader)
        old.readers.clear()

    def can_merge(self, old: Value, new: Value) -> bool:
        """Whether `old`, whose maker would go, may give way to `new`, which is equal; see `merge`."""
        if not old.pinned:
            return all(
                self.available(new, reader.order) and not overwrites(reader.outputs, [new]) for reader in old.readers
            )
        maker = new.producer
        return (
            maker is not None
            and maker.pure
            and not new.pinned
            and not self._read_under_name(old, new.order, old.order)
            and all(value.name != old.name for value in maker.inputs)
            and all(self._lasts_until(old, reader) for reader in new.readers)
        )

    def _lasts_until(self, value: Value, reader: Node) -> bool:
        """Whether nobody, the reader itself included, takes the fixed name of `value` before `reader` has read it."""
        return not any(value.order < other.order <= reader.order for other in self.pinned[value.name])

    def merge(self, old: Value, new: Value) -> None:
        """Leave one of two equal values; the maker of `old` is removed already.

        Readers of `old` read `new`; but where `old` must have its name, the maker of `new` makes `old` instead.
        """
        if not old.pinned:
            self.redirect(old, new)
            self.equals[old] = new
            self.explain(old, "the same as", new)
            return
        maker = new.producer
        assert maker is not None, "can_merge says so"
        maker.outputs = tuple(old if value is new else value for value in maker.outputs)
        old.producer = maker
        self.redirect(new, old)
        self.equals[new] = old
        self.explain(new, "the same as", old)

    def explain(self, value: Value, text: str, into: Value | None = None) -> None:
        """Note why `value` is no longer there, and in what it went."""
        self.reasons[value] = text, into

    def rely(self, *values: Value) -> None:
        """Note that a rewriting is legal for the shapes that these values have: with others the net is made anew."""
        for value in values:
            if value.producer is None:
                self.relied.add(value.name)
            else:
                self.rely(*value.producer.inputs)

    # -- pieces --------------------------------------------------------------------------------------------------------

    def _join(self, node: Node) -> None:
        self._nodes.append(node)
        for value in (*node.outputs, *node.unnamed[1]):
            value.producer = node
        for value in dict.fromkeys((*node.inputs, *node.unnamed[0])):
            value.readers.append(node)

    def _mark(self, values: Mapping[tuple[str, int], Value], last: Mapping[str, int], hidden: set[str]) -> None:
        """Set what values are at the start: kept, pinned, lasting, constant."""
        listed = set(self.definition.external_input)
        self.last = {name: values[name, version] for name, version in last.items()}
        self.externals = {
            name: value for (name, version), value in values.items() if not version and not value.producer
        }
        outputs = {*self.definition.external_output, *self.context.keep} & self.last.keys()
        written = {n for n, v in self.last.items() if v.producer and (n in listed or n in self.externals)}
        leaves = set[str]()
        if not self.definition.external_output and not self.context.keep:
            leaves = {name for name, value in self.last.items() if not value.readers}
        for name in outputs | written | leaves | (hidden & self.last.keys()):
            self.last[name].kept = self.last[name].lasting = True
        for name, value in self.externals.items():
            value.pinned = True
            value.lasting = value.lasting or self.last[name] is value
            value.constant = name in self.context.constants and self.last[name] is value
            value.spec = self.context.specs.get(name)
        for (name, _), value in values.items():
            value.kept = value.kept or name in hidden
            value.pinned = value.pinned or value.kept
        for node in self._nodes:
            self._pin_forced(node)
        for value in values.values():
            if value.pinned:
                self.pinned.setdefault(value.name, []).append(value)
        for node in self._nodes:
            self._mark_constant(node)

    def _pin_forced(self, node: Node) -> None:
        if effects_of(node.view) >= Effects.STATE:
            for value in node.outputs:
                value.pinned = True
        for position, target in enumerate(node.outputs):
            for place in must_overwrite(node.view, position):
                node.inputs[place].pinned = target.pinned = True

    def _mark_constant(self, node: Node) -> None:
        constant = (
            node.pure
            and all(value.constant for value in node.inputs)
            and not any(value.pinned for value in node.outputs)
        )
        for value in node.outputs:
            value.constant = constant

    def _read_under_name(self, value: Value, after: Order, before: Order) -> bool:
        """Whether somebody between two places reads an older value of the same fixed name, or writes a younger one."""
        for other in self.pinned[value.name]:
            if other is not value and (
                after < other.order <= before or any(after < r.order <= before for r in other.readers)
            ):
                return True
        return False

    def _infer(self) -> None:
        if not self.context.specs:
            return
        for position, node in enumerate(self._nodes):
            try:
                self._infer_node(node)
            except TazzaError as error:
                error.add_context(f"in operator {position} ({node.type}) of net {self.definition.name!r}")
                raise

    def _infer_node(self, node: Node) -> None:
        specs = node.view.schema.infer_specs(node.view, [value.spec for value in node.inputs]).specs
        for value, spec in zip(node.outputs, specs, strict=True):
            if spec is not None:
                value.spec = spec


def _label(value: Value) -> str:
    """Return a name for the check of in-place pairs: only values with a fixed name surely share it."""
    return value.name if value.pinned else f"{value.name}.{value.version}"


def _is_made(value: Value) -> bool:
    return value.producer is None or value.producer.active


def _view(net: NetDef, position: int, op: OperatorDef) -> OpView:
    try:
        return find_schema(op.type).view(op).within(net)
    except TazzaError as error:
        error.add_context(f"in operator {position} ({op.type}) of net {net.name!r}")
        raise


def _device_key(option: DeviceOption) -> tuple[int, int, str]:
    return option.device_type, option.device_id, option.node_name


def overwrites(outputs: Iterable[Value], inputs: Iterable[Value]) -> bool:
    """Whether a node with these would write an output under the fixed name of an input, which asks for in-place."""
    read = {value.name for value in inputs if value.pinned}
    return any(value.pinned and value.name in read for value in outputs)


def broken(graph: Graph) -> NetError | None:
    """Return what a rewrite left wrong: a value that somebody needs and nobody makes, or makes too late."""
    for node in graph.nodes():
        for value in node.inputs:
            if not _is_made(value) or value.order >= node.order:
                return NetError(f"{node.type} at {node.order} reads {value}, which nobody makes before it")
    for value in graph.last.values():
        if value.kept and not _is_made(value):
            return NetError(f"blob {value.name!r} must survive, nobody makes it any more")
    return None
