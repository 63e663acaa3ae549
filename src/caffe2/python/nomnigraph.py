"""Nets as graphs that scripts edit: `tazza.graph.wiring` by its old names."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from caffe2.python import _import_c_extension as C
from caffe2.python import core
from tazza.errors import ArgumentError
from tazza.proto import NetDef

Annotation = C.Annotation
Graph = C.Graph
NNMatchGraph = C.NNMatchGraph
NNSubgraph = C.NNSubgraph
NeuralNetData = Data = C.NeuralNetData
NeuralNetOperator = Operator = C.NeuralNetOperator

__all__ = [
    "Annotation",
    "Data",
    "Graph",
    "NNMatchGraph",
    "NNModule",
    "NNSubgraph",
    "NeuralNetData",
    "NeuralNetOperator",
    "Operator",
    "render",
]


class NNModule:
    """A net as a graph of operators and blobs."""

    def __init__(self, net: Any = None, device_map: Mapping[str, Any] | None = None) -> None:
        """Take a net or its message apart; with devices for its inputs, operators declare these."""
        if net is None:
            self._NNModule = C.NNModule()
            return
        proto = net.Proto() if isinstance(net, core.Net) else net
        if not isinstance(proto, NetDef):
            raise ArgumentError(f"{net!r} is neither a core.Net nor a NetDef")
        given = proto.SerializeToString()
        if device_map is None:
            self._NNModule, _ = C.NNModuleFromProtobuf(given)
        else:
            devices = {name: option.SerializeToString() for name, option in dict(device_map).items()}
            self._NNModule = C.NNModuleFromProtobufDistributed(given, devices)

    @property
    def dataFlow(self) -> C.NNGraph:
        """The operators and blobs."""
        return self._NNModule.dataFlow()

    @property
    def controlFlow(self) -> list[C.NodeRef]:
        """The operators in the order in which they run."""
        return self._NNModule.getExecutionOrder()

    @property
    def nodes(self) -> list[C.NodeRef]:
        """All operators and blobs."""
        return self.dataFlow.getMutableNodes()

    @property
    def operators(self) -> list[C.NodeRef]:
        """The operators."""
        return self.dataFlow.operators

    @property
    def tensors(self) -> list[C.NodeRef]:
        """The blobs."""
        return self.dataFlow.tensors

    def createNode(self, val: Any) -> C.NodeRef:
        """Add a blob or an operator."""
        return self.dataFlow.createNode(val)

    def createUniqueDataNode(self, prefix: str = "_unique") -> C.NodeRef:
        """Add a blob with a name that no other has."""
        return self._NNModule.createUniqueDataNode(prefix)

    def createEdge(self, a: C.NodeRef, b: C.NodeRef) -> None:
        """Let one be the last input or output of the other."""
        self.dataFlow.createEdge(a, b)

    def deleteEdge(self, a: C.NodeRef, b: C.NodeRef | None = None) -> None:
        """Take away the edge between two nodes."""
        if b is None:
            raise ArgumentError("an edge is known by both of its nodes", hint="deleteEdge(a, b)")
        self.dataFlow.deleteEdge(a, b)

    def deleteNode(self, node: C.NodeRef) -> None:
        """Take away a node and its edges."""
        self.dataFlow.deleteNode(node)

    def deleteSubgraph(self, subgraph: C.NNSubgraph) -> None:
        """Take away nodes and their edges."""
        self._NNModule.deleteSubgraph(subgraph)

    def replaceNode(self, old_node: C.NodeRef, new_node: C.NodeRef) -> None:
        """Give all edges of one node to another one."""
        self.dataFlow.replaceNode(old_node, new_node)

    def replaceProducer(self, tensor: C.NodeRef, new_producer: C.NodeRef) -> None:
        """Let another operator write a blob."""
        C.replaceProducer(tensor, new_producer)

    def replaceAllUsesWith(self, old_tensor: C.NodeRef, new_tensor: C.NodeRef) -> None:
        """Let all who read a blob read another one."""
        C.replaceAllUsesWith(old_tensor, new_tensor)

    def replaceAsConsumer(self, old_consumer: C.NodeRef, new_consumer: C.NodeRef) -> None:
        """Let one operator read what another one reads."""
        C.replaceAsConsumer(old_consumer, new_consumer)

    def replaceSubgraph(
        self, subgraph: C.NNSubgraph, new_node: C.NodeRef, inputs: Sequence[C.NodeRef], outputs: Sequence[C.NodeRef]
    ) -> None:
        """Let one operator stand for nodes."""
        self._NNModule.replaceSubgraph(subgraph, new_node, inputs, outputs)

    def match(self, pattern: C.NNMatchGraph) -> Iterator[C.NNSubgraph]:
        """Yield the matches of a pattern; between two of them the graph may be changed."""
        for node in self.nodes:
            if node in self.nodes:
                found = C.matchSubgraph(node, pattern)
                if len(found):
                    yield found

    def convertToCaffe2Proto(self, old_proto: NetDef | None = None) -> NetDef:
        """Return the net; what is no operator is as in the given one."""
        return NetDef.FromString(self._NNModule.convertToCaffe2Proto(NetDef() if old_proto is None else old_proto))


def render(s: Any) -> None:
    """Print a graph as lines, by the program graph-easy; without that, as graphviz takes it."""
    try:
        done = subprocess.run(["graph-easy"], input=str(s), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        print(s)
    else:
        print(done.stdout)
