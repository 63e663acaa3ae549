"""A net as operators and blobs that anybody wires anew, one edge at a time.

    net -> Wiring.of -> join, cut, remove ... -> to_net

A `Graph` is for passes: its operators are legal at any time, and a rewrite is one step. Here nothing is asked until
`to_net`: an operator may have a type that nobody declares, and as long as the edits last its inputs may be missing.
Each write of a name is a blob of its own. Edges lead from blobs to operators that read them and from operators to
blobs that they write; one may be there several times, and their order is that of inputs and outputs.

Operators keep the order in which they ran, as far as edges let them: a new one stands right before the first that
reads what it writes, one that nobody reads at the end, and one that edits left behind its reader moves before it.

Changing state: everything; a wiring belongs to one thread. Invariant: `b in a.targets` as often as `a in b.sources`.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from tazza.errors import ArgumentError, BoundsError, NetError
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.log import logger


class WiredOperator:
    """An operator: `definition` has all but its inputs and outputs, which the edges tell. `note` is its editor's."""

    __slots__ = ("definition", "note", "sources", "targets")

    def __init__(self, definition: OperatorDef) -> None:
        """Start without edges."""
        self.definition = definition
        self.sources: list[WiredBlob] = []
        self.targets: list[WiredBlob] = []
        self.note: object = None

    def __repr__(self) -> str:
        return f"{_names(self.targets)} = {self.name}({_names(self.sources)})"

    @property
    def name(self) -> str:
        """The operator type."""
        return self.definition.type


class WiredBlob:
    """What one operator, or several, or somebody outside, leaves under a name."""

    __slots__ = ("name", "sources", "targets")

    def __init__(self, name: str) -> None:
        """Start without edges."""
        self.name = name
        self.sources: list[WiredOperator] = []
        self.targets: list[WiredOperator] = []

    def __repr__(self) -> str:
        return self.name

    @property
    def producer(self) -> WiredOperator | None:
        """Who writes it, the first where there are several."""
        return self.sources[0] if self.sources else None


Wired: TypeAlias = WiredOperator | WiredBlob


class Wiring:
    """The operators and blobs of one net; see the module.

    `inputs` and `outputs` are the blobs that the net declares. Only those in `nodes` count.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.nodes: list[Wired] = []
        self.inputs: list[WiredBlob] = []
        self.outputs: list[WiredBlob] = []
        self._sequence: list[WiredOperator] = []

    @staticmethod
    def of(net: NetDef) -> Wiring:
        """Return the wiring of a net. Declared inputs that nobody reads, and outputs that nobody knows, are left out.

        >>> from tazza.graph.text import parse_net
        >>> wiring = Wiring.of(parse_net("y = Relu(x)", "y = Anything(y, x)"))
        >>> wiring.nodes
        [y = Relu(x), x, y, y = Anything(y, x), y]
        """
        wiring = Wiring()
        latest: dict[str, WiredBlob] = {}
        outside: dict[str, WiredBlob] = {}
        for op in net.op:
            node = wiring.add_operator(op)
            for name in op.input:
                if name not in latest:
                    latest[name] = outside[name] = wiring.add_blob(name)
                wiring.join(latest[name], node)
            for name in op.output:
                latest[name] = wiring.add_blob(name)
                wiring.join(node, latest[name])
        wiring.inputs = [outside[name] for name in net.external_input if name in outside]
        wiring.outputs = [latest[name] for name in net.external_output if name in latest]
        wiring._sequence = wiring.operators
        return wiring

    # -- what is asked of it -------------------------------------------------------------------------------------------

    @property
    def operators(self) -> list[WiredOperator]:
        """All operators, in the order in which they were added."""
        return [node for node in self.nodes if isinstance(node, WiredOperator)]

    @property
    def blobs(self) -> list[WiredBlob]:
        """All blobs, in the order in which they were added."""
        return [node for node in self.nodes if isinstance(node, WiredBlob)]

    def sequence(self) -> list[WiredOperator]:
        """Return the operators in the order in which they run.

        Raises:
            NetError: operators wait for one another in a circle.
        """
        operators = self.operators
        _check_for_circle(operators)
        there = set(operators)
        kept = [node for node in self._sequence if node in there]
        self._sequence = _settled(_with_new(kept, self.nodes))
        return list(self._sequence)

    def to_net(self, like: NetDef | None = None) -> NetDef:
        """Return the net; what is no operator and no declared blob is as in `like`, and so is the order of the latter.

        Names are those of the blobs, whatever that does to readers: where an operator would read another blob of the
        same name, a warning says so.

        Raises:
            NetError: operators wait for one another in a circle.
        """
        made = NetDef()
        if like is not None:
            made.CopyFrom(like)
            made.ClearField("op")
        latest: dict[str, Sequence[WiredOperator]] = {}
        for node in self.sequence():
            op = made.op.add()
            op.CopyFrom(node.definition)
            op.ClearField("input")
            op.ClearField("output")
            op.input.extend(blob.name for blob in node.sources)
            op.output.extend(blob.name for blob in node.targets)
            for blob in node.sources:
                if latest.get(blob.name, blob.sources) != blob.sources:
                    logger.warning("%s reads another %r than it was wired to", node, blob.name)
            latest.update((blob.name, blob.sources) for blob in node.targets)
        there = set(self.nodes)
        _declare(made.external_input, [blob.name for blob in self.inputs if blob in there])
        _declare(made.external_output, [blob.name for blob in self.outputs if blob in there])
        return made

    def free_name(self, prefix: str) -> str:
        """Return the prefix where no blob has that name, else the first of `prefix_0`, `prefix_1` ... that is free."""
        used = {blob.name for blob in self.blobs}
        numbered = (f"{prefix}_{number}" for number in itertools.count())
        return next(name for name in itertools.chain([prefix], numbered) if name not in used)

    # -- what changes it -----------------------------------------------------------------------------------------------

    def add_operator(self, definition: OperatorDef) -> WiredOperator:
        """Add an operator without edges: what the definition lists as inputs and outputs does not count."""
        own = OperatorDef()
        own.CopyFrom(definition)
        self.nodes.append(node := WiredOperator(own))
        return node

    def add_blob(self, name: str) -> WiredBlob:
        """Add a blob without edges; others may have its name."""
        self.nodes.append(node := WiredBlob(name))
        return node

    def join(self, source: Wired, target: Wired) -> None:
        """Add an edge, behind those that are there: a blob as the last input, or the last output, of an operator.

        Raises:
            ArgumentError: the two are operators, or blobs.
        """
        if isinstance(source, WiredBlob) and isinstance(target, WiredOperator):
            target.sources.append(source)
            source.targets.append(target)
        elif isinstance(source, WiredOperator) and isinstance(target, WiredBlob):
            target.sources.append(source)
            source.targets.append(target)
        else:
            raise ArgumentError(
                f"an edge from {source!r} to {target!r}: edges lead from blobs to operators and back",
                hint="give an operator a blob to write, and the other one that to read",
            )

    def cut(self, source: Wired, target: Wired) -> None:
        """Take away the first edge from one to the other, if there is any."""
        if target in source.targets:
            _drop(source.targets, target)
            _drop(target.sources, source)

    def remove(self, *nodes: Wired) -> None:
        """Take away nodes, and all edges that begin or end there."""
        gone = set(nodes)
        for node in gone:
            for source in list(node.sources):
                self.cut(source, node)
            for target in list(node.targets):
                self.cut(node, target)
        self.nodes = [node for node in self.nodes if node not in gone]

    def exchange(self, old: Wired, new: Wired) -> None:
        """Give all edges of `old` to `new`, behind its own; the other ends keep their order.

        Raises:
            ArgumentError: one of them is an operator, the other a blob.
        """
        if isinstance(old, WiredOperator) and isinstance(new, WiredOperator):
            move_inputs(old, new)
            for blob in old.targets:
                blob.sources[blob.sources.index(old)] = new
            new.targets += old.targets
            old.targets = []
        elif isinstance(old, WiredBlob) and isinstance(new, WiredBlob):
            move_readers(old, new)
            for node in old.sources:
                node.targets[node.targets.index(old)] = new
            new.sources += old.sources
            old.sources = []
        else:
            raise ArgumentError(f"{new!r} cannot stand for {old!r}: one is an operator, the other a blob")

    def collapse(
        self, nodes: Iterable[Wired], new: WiredOperator, inputs: Sequence[WiredBlob], outputs: Sequence[WiredBlob]
    ) -> None:
        """Take away nodes but `inputs` and `outputs`, which `new` reads and writes from then on."""
        kept: set[Wired] = {*inputs, *outputs}
        self.remove(*(node for node in nodes if node not in kept))
        for blob in inputs:
            self.join(blob, new)
        for blob in outputs:
            self.join(new, blob)


def move_readers(old: WiredBlob, new: WiredBlob) -> None:
    """Let all readers of `old` read `new`, at the same places among their inputs."""
    for reader in old.targets:
        reader.sources[reader.sources.index(old)] = new
    new.targets += old.targets
    old.targets = []


def move_inputs(old: WiredOperator, new: WiredOperator) -> None:
    """Let `new` read all that `old` reads, behind its own inputs."""
    for blob in old.sources:
        blob.targets[blob.targets.index(old)] = new
    new.sources += old.sources
    old.sources = []


def set_producer(blob: WiredBlob, new: WiredOperator) -> None:
    """Let `new` write a blob, instead of the (first) operator that writes it.

    Raises:
        BoundsError: nobody writes it.
    """
    if blob.producer is None:
        raise BoundsError(f"blob {blob.name!r} has no producer that could be replaced")
    old = blob.producer
    _drop(old.targets, blob)
    blob.sources[0:1] = []
    blob.sources.append(new)
    new.targets.append(blob)


def _names(blobs: Iterable[WiredBlob]) -> str:
    return ", ".join(blob.name for blob in blobs)


def _drop(nodes: Sequence[Wired], one: Wired) -> None:
    """Remove the first that is this very one."""
    assert isinstance(nodes, list)
    del nodes[next(place for place, node in enumerate(nodes) if node is one)]


def _declare(listed: object, names: Sequence[str]) -> None:
    """Set a list of declared blobs: those that stay in their order, then the new ones."""
    fields: list[str] = listed  # pyright: ignore[reportAssignmentType] -- a repeated field is as good as a list
    wanted = dict.fromkeys(names)
    ordered = [*(name for name in dict.fromkeys(fields) if name in wanted), *names]
    fields[:] = list(dict.fromkeys(ordered))


# -- order -------------------------------------------------------------------------------------------------------------


def _waits_for(node: WiredOperator) -> Iterator[WiredOperator]:
    for blob in node.sources:
        yield from blob.sources


def _check_for_circle(operators: Sequence[WiredOperator]) -> None:
    try:
        graphlib.TopologicalSorter({node: set(_waits_for(node)) for node in operators}).prepare()
    except graphlib.CycleError as error:
        circle: list[WiredOperator] = error.args[1]
        told = " <- ".join(repr(str(node)) for node in circle)
        raise NetError(f"operators wait for one another: {told}", hint="cut an edge between them") from None


def _with_new(kept: Sequence[WiredOperator], nodes: Sequence[Wired]) -> list[WiredOperator]:
    """Return the operators with new ones among them: each before its first reader, else at the end."""
    ordered = list(kept)
    new = {node for node in nodes if isinstance(node, WiredOperator)}.difference(kept)
    grown = bool(new)
    while grown:
        grown = False
        for node in list(ordered):
            producers = (blob.producer for blob in node.sources)
            for producer in [one for one in dict.fromkeys(producers) if one in new]:
                ordered.insert(ordered.index(node), producer)
                new.discard(producer)
                grown = True
    return ordered + ([node for node in _by_depth(nodes) if node in new] if new else [])


def _by_depth(nodes: Sequence[Wired]) -> list[Wired]:
    """Return nodes so that edges lead forwards, later ones first where there is a choice."""
    finished: dict[Wired, None] = {}
    seen: set[Wired] = set()
    for root in nodes:
        if root in seen:
            continue
        seen.add(root)
        path: list[tuple[Wired, Iterator[Wired]]] = [(root, iter(root.targets))]
        while path:
            node, ahead = path[-1]
            target = next((one for one in ahead if one not in seen), None)
            if target is None:
                finished[node] = None
                path.pop()
            else:
                seen.add(target)
                path.append((target, iter(target.targets)))
    return list(reversed(finished))


def _readers(node: WiredOperator) -> Iterator[WiredOperator]:
    return (reader for blob in node.targets for reader in blob.targets)


def _settled(ordered: list[WiredOperator]) -> list[WiredOperator]:
    """Move operators that stand behind one that reads from them right before the first such, until there is none."""
    place = {node: number for number, node in enumerate(ordered)}
    late = any(place[reader] < place[node] for node in ordered for reader in _readers(node))
    while late:
        late = False
        for node in list(ordered):
            here = ordered.index(node)
            first = min((ordered.index(reader) for reader in _readers(node)), default=here)
            if first < here:
                ordered.insert(first, ordered.pop(here))
                late = True
    return ordered
