"""Graphs of nets as the extension gave them to Python; `tazza.graph.wiring` is what they stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from caffe2.python._extension_workspace import message
from tazza.errors import ArgumentError, NetError
from tazza.graph.wiring import Wired, WiredBlob, WiredOperator, Wiring, move_inputs, move_readers, set_producer
from tazza.graph.wiring_match import Wanted, first_wanted, match_at
from tazza.proto import DeviceOption, NetDef, OperatorDef


def _serialized(given: Any, expected: str) -> bytes:
    """Return a message as bytes, which its caller did not."""
    if not hasattr(given, "SerializeToString"):
        raise ArgumentError(f"{given!r} is no {expected}", hint=f"give a message of the type {expected}")
    return given.SerializeToString()


class _Named:
    def __init__(self, arg0: str) -> None:
        """Start with a name."""
        self._name = arg0

    def getName(self) -> str:
        """Return the name."""
        return self._name


class NeuralNetOperator(_Named):
    """An operator of a type."""


class NeuralNetData(_Named):
    """A blob with a name."""


class Annotation:
    """What is noted of an operator: its definition, its device, and texts and nodes for whoever distributes nets."""

    def __init__(self) -> None:
        """Note nothing."""
        self._definition: OperatorDef | None = None
        self._levels: list[str] = []
        self._nodes: dict[str, NodeRef] = {}
        self._device, self._device_type = "", 0

    def _assigned(self, other: Annotation) -> None:
        """Note what another one does, but keep the definition where that has none."""
        if other._definition is not None:
            self.operator_def = other.operator_def
        self._levels, self._nodes = list(other._levels), dict(other._nodes)
        self._device, self._device_type = other._device, other._device_type
        if other._device_type:
            self.setDeviceType(other._device_type)

    def setDevice(self, arg0: str) -> None:
        """Note the name of a device."""
        self._device = arg0

    def getDevice(self) -> str:
        """Return the name of the device."""
        return self._device

    def setDeviceType(self, arg0: int) -> None:
        """Note the type of a device."""
        self._device_type = arg0
        if self._definition is not None:
            self._definition.device_option.device_type = arg0

    def getDeviceType(self) -> int:
        """Return the type of the device."""
        return self._device_type

    def hasDeviceOption(self) -> bool:
        """Whether the definition says on which device."""
        return self._definition is not None and self._definition.HasField("device_option")

    @property
    def device_option(self) -> DeviceOption:
        """The device of the definition."""
        if self._definition is None or not self.hasDeviceOption():
            raise NetError("no device option was set", hint="hasDeviceOption() tells")
        made = DeviceOption()
        made.CopyFrom(self._definition.device_option)
        return made

    @device_option.setter
    def device_option(self, value: Any) -> None:
        option = message(DeviceOption, _serialized(value, "DeviceOption"))
        if self._definition is None:
            self._definition = OperatorDef()
        self._definition.device_option.CopyFrom(option)
        self._device, self._device_type = option.node_name, option.device_type

    @property
    def operator_def(self) -> OperatorDef:
        """The definition."""
        if self._definition is None:
            raise NetError("no definition of an operator was set", hint="assign operator_def")
        made = OperatorDef()
        made.CopyFrom(self._definition)
        return made

    @operator_def.setter
    def operator_def(self, value: Any) -> None:
        given = message(OperatorDef, _serialized(value, "OperatorDef"))
        if self._definition is None:
            self._definition = OperatorDef()
        self._definition.CopyFrom(given)
        self._device, self._device_type = given.device_option.node_name, given.device_option.device_type

    def setKeyNode(self, arg0: NodeRef) -> None:
        """Note the node of keys."""
        self._nodes["key"] = arg0

    def getKeyNode(self) -> NodeRef:
        """Return the node of keys."""
        return self._node("key")

    def setLengthNode(self, arg0: NodeRef) -> None:
        """Note the node of lengths."""
        self._nodes["length"] = arg0

    def getLengthNode(self) -> NodeRef:
        """Return the node of lengths."""
        return self._node("length")

    def _node(self, kind: str) -> NodeRef:
        if kind not in self._nodes:
            raise NetError(f"no {kind} node was set")
        return self._nodes[kind]

    def setComponentLevels(self, arg0: Sequence[str]) -> None:
        """Note texts."""
        self._levels = list(arg0)

    def getComponentLevels(self) -> list[str]:
        """Return these texts."""
        return list(self._levels)


class NodeRef:
    """An operator or a blob of a graph."""

    def __init__(self, node: Wired) -> None:
        """Show a node; two that show the same are equal."""
        self._node = node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeRef) and other._node is self._node

    def __hash__(self) -> int:
        return hash(self._node)

    def isOperator(self) -> bool:
        """Whether it is an operator."""
        return isinstance(self._node, WiredOperator)

    def isTensor(self) -> bool:
        """Whether it is a blob."""
        return isinstance(self._node, WiredBlob)

    def _as_operator(self) -> WiredOperator:
        if not isinstance(self._node, WiredOperator):
            raise NetError(f"blob {self._node.name!r} is no operator", hint="isOperator() tells")
        return self._node

    def _as_tensor(self) -> WiredBlob:
        if not isinstance(self._node, WiredBlob):
            raise NetError(f"operator {self._node.name} is no blob", hint="isTensor() tells")
        return self._node

    def getName(self) -> str:
        """Return the type of an operator, the name of a blob."""
        return self._node.name

    def getType(self) -> str:
        """Return what it is."""
        return "Operator" if self.isOperator() else "Tensor"

    def getOperator(self) -> NeuralNetOperator:
        """Return the operator."""
        return NeuralNetOperator(self._as_operator().name)

    def getTensor(self) -> NeuralNetData:
        """Return the blob."""
        return NeuralNetData(self._as_tensor().name)

    def getInputs(self) -> list[NodeRef]:
        """Return what an operator reads."""
        return [NodeRef(blob) for blob in self._as_operator().sources]

    def getOutputs(self) -> list[NodeRef]:
        """Return what an operator writes."""
        return [NodeRef(blob) for blob in self._as_operator().targets]

    def hasProducer(self) -> bool:
        """Whether an edge leads to it."""
        return bool(self._node.sources)

    def getProducer(self) -> NodeRef:
        """Return who writes a blob."""
        producer = self._as_tensor().producer
        if producer is None:
            raise NetError(f"nobody in the net writes blob {self._node.name!r}", hint="hasProducer() tells")
        return NodeRef(producer)

    def getConsumers(self) -> list[NodeRef]:
        """Return who reads a blob, once for each time."""
        return [NodeRef(node) for node in self._as_tensor().targets]

    def getOperatorPredecessors(self) -> list[NodeRef]:
        """Return who writes what an operator reads."""
        return [NodeRef(one) for blob in self._as_operator().sources for one in blob.sources]

    def getOperatorSuccessors(self) -> list[NodeRef]:
        """Return who reads what an operator writes."""
        return [NodeRef(one) for blob in self._as_operator().targets for one in blob.targets]

    def getAnnotation(self) -> Annotation:
        """Return what is noted of an operator; what is changed there is changed here."""
        node = self._as_operator()
        if node.note is None:
            node.note = made = Annotation()
            option = node.definition.device_option
            made._definition, made._device, made._device_type = node.definition, option.node_name, option.device_type  # pyright: ignore[reportPrivateUsage]
        return cast("Annotation", node.note)

    def setAnnotation(self, arg0: Annotation) -> None:
        """Note of an operator what is noted there by now."""
        self.getAnnotation()._assigned(arg0)  # pyright: ignore[reportPrivateUsage]

    name = property(getName)
    type = property(getType)
    operator = property(getOperator)
    tensor = property(getTensor)
    inputs = property(getInputs)
    outputs = property(getOutputs)
    producer = property(getProducer)
    consumers = property(getConsumers)
    annotation = property(getAnnotation, setAnnotation)


def _dot(nodes: Iterable[Any], label: Callable[[Any], str], targets: Callable[[Any], Iterable[Any]]) -> str:
    """Return nodes and edges in the language of graphviz; operators are boxes."""
    lines = ["digraph G {", "rankdir=LR"]
    for node in nodes:
        box = 'shape="box",' if isinstance(node, WiredOperator) else ""
        lines.append(f'{id(node)}[label="{label(node)}",{box}];')
        lines += [f"{id(node)} -> {id(target)}[];" for target in targets(node)]
    return "\n".join([*lines, "}\n"])


class NNGraph:
    """The operators and blobs of a net."""

    def __init__(self, wiring: Wiring) -> None:
        """Show a wiring."""
        self._wiring = wiring

    def __repr__(self) -> str:
        return _dot(self._wiring.nodes, lambda node: node.name, lambda node: node.targets)

    def getMutableNodes(self) -> list[NodeRef]:
        """Return all nodes."""
        return [NodeRef(node) for node in self._wiring.nodes]

    @property
    def operators(self) -> list[NodeRef]:
        """The operators."""
        return [NodeRef(node) for node in self._wiring.operators]

    @property
    def tensors(self) -> list[NodeRef]:
        """The blobs."""
        return [NodeRef(node) for node in self._wiring.blobs]

    nodes = property(getMutableNodes)

    def createNode(self, arg0: Any) -> NodeRef:
        """Add a blob, or an operator by its type or definition: of the latter inputs and outputs do not count."""
        if isinstance(arg0, NeuralNetData):
            return NodeRef(self._wiring.add_blob(arg0.getName()))
        if isinstance(arg0, NeuralNetOperator):
            return NodeRef(self._wiring.add_operator(OperatorDef(type=arg0.getName())))
        return NodeRef(self._wiring.add_operator(message(OperatorDef, _serialized(arg0, "OperatorDef"))))

    def createEdge(self, arg0: NodeRef, arg1: NodeRef) -> None:
        """Let one be the last input or output of the other."""
        self._wiring.join(_wired(arg0), _wired(arg1))

    def deleteEdge(self, arg0: NodeRef, arg1: NodeRef) -> None:
        """Take away an edge."""
        self._wiring.cut(_wired(arg0), _wired(arg1))

    def deleteNode(self, arg0: NodeRef) -> None:
        """Take away a node and its edges."""
        self._wiring.remove(_wired(arg0))

    def replaceNode(self, arg0: NodeRef, arg1: NodeRef) -> None:
        """Give all edges of one to the other."""
        self._wiring.exchange(_wired(arg0), _wired(arg1))


def _wired(ref: Any) -> Wired:
    if not isinstance(ref, NodeRef):
        raise TypeError(f"{ref!r} is no node of a net")
    return ref._node  # pyright: ignore[reportPrivateUsage]


class NNSubgraph:
    """Some nodes of a net."""

    def __init__(self) -> None:
        """Start empty."""
        self._nodes: dict[Wired, None] = {}
        self._edges = False

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        return _dot(
            self._nodes,
            lambda node: node.name,
            lambda node: [target for target in node.targets if self._edges and target in self._nodes],
        )

    @property
    def nodes(self) -> list[NodeRef]:
        """The nodes."""
        return [NodeRef(node) for node in self._nodes]

    def addNode(self, arg0: NodeRef) -> None:
        """Add a node."""
        self._nodes[_wired(arg0)] = None

    def hasNode(self, arg0: NodeRef) -> bool:
        """Whether a node is among them."""
        return _wired(arg0) in self._nodes

    def induceEdges(self) -> None:
        """Let edges between its nodes belong to it."""
        self._edges = True


class MatchPredicateRef:
    """A node of a pattern."""

    def __init__(self, wanted: Wanted) -> None:
        """Show what is wanted of a node."""
        self._wanted = wanted


class NNMatchGraph:
    """A pattern: only nodes that are `strict` lead on, and all edges that leave them have to be there."""

    def __init__(self) -> None:
        """Start empty."""
        self._pattern: list[Wanted] = []

    def createNode(self, node: Any = None, strict: bool = False, *, tensor: Any = None) -> MatchPredicateRef:
        """Add what is wanted of a node: an operator of a type, a blob of any name, or anything."""
        if isinstance(node, bool):
            node, strict = None, node
        given = tensor if node is None else node
        if given is not None and not isinstance(given, (NeuralNetOperator, NeuralNetData)):
            raise TypeError(f"{given!r} is neither an operator nor a blob")
        self._pattern.append(Wanted(lambda found: _is_like(found, given), strict))
        return MatchPredicateRef(self._pattern[-1])

    def createEdge(self, arg0: MatchPredicateRef, arg1: MatchPredicateRef) -> None:
        """Let one be followed by the other."""
        arg0._wanted.targets.append(arg1._wanted)  # pyright: ignore[reportPrivateUsage]

    def getMutableNodes(self) -> list[MatchPredicateRef]:
        """Return all nodes."""
        return [MatchPredicateRef(one) for one in self._pattern]


def _is_like(node: Wired, given: NeuralNetOperator | NeuralNetData | None) -> bool:
    if isinstance(given, NeuralNetOperator):
        return isinstance(node, WiredOperator) and node.name == given.getName()
    return given is None or isinstance(node, WiredBlob)


def matchSubgraph(arg0: NodeRef, arg1: NNMatchGraph) -> NNSubgraph:
    """Return the nodes on which a pattern comes to lie at a node, none where it does not fit."""
    made = NNSubgraph()
    wanted = first_wanted(arg1._pattern)  # pyright: ignore[reportPrivateUsage]
    for node in [] if wanted is None else match_at(_wired(arg0), wanted):
        made.addNode(NodeRef(node))
    made.induceEdges()
    return made


class NNModule:
    """A net as a graph."""

    def __init__(self, wiring: Wiring | None = None) -> None:
        """Show a wiring, or begin a new one."""
        self.wiring = Wiring() if wiring is None else wiring

    def dataFlow(self) -> NNGraph:
        """Return the operators and blobs."""
        return NNGraph(self.wiring)

    def getExecutionOrder(self) -> list[NodeRef]:
        """Return the operators in the order in which they run."""
        return [NodeRef(node) for node in self.wiring.sequence()]

    def createUniqueDataNode(self, arg0: str) -> NodeRef:
        """Add a blob with a name that no other has."""
        return NodeRef(self.wiring.add_blob(self.wiring.free_name(arg0)))

    def deleteSubgraph(self, arg0: NNSubgraph) -> None:
        """Take away nodes and their edges."""
        self.wiring.remove(*_members(arg0))

    def replaceSubgraph(
        self, arg0: NNSubgraph, arg1: NodeRef, arg2: Sequence[NodeRef], arg3: Sequence[NodeRef]
    ) -> None:
        """Let one operator stand for nodes."""
        inputs, outputs = ([ref._as_tensor() for ref in refs] for refs in (arg2, arg3))  # pyright: ignore[reportPrivateUsage]
        self.wiring.collapse(_members(arg0), arg1._as_operator(), inputs, outputs)  # pyright: ignore[reportPrivateUsage]

    def convertToCaffe2Proto(self, arg0: Any) -> bytes:
        """Return the net; what is no operator is as in the given one."""
        return self.wiring.to_net(message(NetDef, _serialized(arg0, "NetDef"))).SerializeToString()


def _members(subgraph: Any) -> list[Wired]:
    if not isinstance(subgraph, NNSubgraph):
        raise TypeError(f"{subgraph!r} is no subgraph")
    return list(subgraph._nodes)  # pyright: ignore[reportPrivateUsage]


def NNModuleFromProtobuf(arg0: bytes) -> tuple[NNModule, list[NodeRef]]:
    """Return the graph of a net, and its operators."""
    wiring = Wiring.of(message(NetDef, arg0))
    return NNModule(wiring), [NodeRef(node) for node in wiring.operators]


def NNModuleFromProtobufDistributed(arg0: bytes, arg1: Mapping[str, bytes]) -> NNModule:
    """Return the graph of a net whose inputs are declared by operators, on devices, and whose outputs are exported.

    Raises:
        ArgumentError: a device is given for what is no input.
    """
    wiring = Wiring.of(message(NetDef, arg0))
    unknown = set(arg1).difference(blob.name for blob in wiring.inputs)
    if unknown:
        raise ArgumentError(f"devices for {sorted(unknown)}, which are no inputs of the net")
    for blob in wiring.inputs:
        definition = OperatorDef(type="Declare")
        if blob.name in arg1:
            definition.device_option.ParseFromString(arg1[blob.name])
        wiring.join(wiring.add_operator(definition), blob)
    for blob in wiring.outputs:
        wiring.join(blob, wiring.add_operator(OperatorDef(type="Export")))
    wiring.inputs, wiring.outputs = [], []
    return NNModule(wiring)


def replaceProducer(arg0: NodeRef, arg1: NodeRef) -> None:
    """Let another operator write a blob."""
    set_producer(arg0._as_tensor(), arg1._as_operator())  # pyright: ignore[reportPrivateUsage]


def replaceAllUsesWith(arg0: NodeRef, arg1: NodeRef) -> None:
    """Let all who read a blob read another one."""
    move_readers(arg0._as_tensor(), arg1._as_tensor())  # pyright: ignore[reportPrivateUsage]


def replaceAsConsumer(arg0: NodeRef, arg1: NodeRef) -> None:
    """Let one operator read what another one reads."""
    move_inputs(arg0._as_operator(), arg1._as_operator())  # pyright: ignore[reportPrivateUsage]


class Node:
    """A node of a graph of anything."""

    def __init__(self, name: str) -> None:
        """Start with a label."""
        self.name = name
        self.targets: list[Node] = []


class Edge:
    """An edge of such a graph."""


class Graph:
    """A graph of anything, to be drawn."""

    def __init__(self) -> None:
        """Start empty."""
        self._nodes: list[Node] = []

    def __repr__(self) -> str:
        return _dot(self._nodes, lambda node: node.name, lambda node: node.targets)

    def createNode(self, arg0: object) -> Node:
        """Add a node."""
        self._nodes.append(node := Node(str(arg0)))
        return node

    def createEdge(self, arg0: Node, arg1: Node) -> Edge:
        """Add an edge."""
        arg0.targets.append(arg1)
        return Edge()
