"""Pointwise operators that feed each other become one, whose formulas are composed.

Before a net has run the shapes of its data are unknown; then operators are taken that broadcast nothing, and what
they become refuses other data, as they do.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.graph.composition import (
    LONGEST,
    broadcasts_plainly,
    compose,
    declares_float,
    formulas,
    keeps_shape,
)
from tazza.graph.graph import Graph, Node, Value
from tazza.graph.transform import Transform, transform
from tazza.tensor import DataType, TensorSpec

MOST_NODES, MOST_INPUTS = 32, 8
"""Larger clusters gain nothing: the operands no longer fit the registers."""


@transform(
    "pointwise_cluster",
    help="one operator for pointwise operators that feed each other",
    after=("fuse_epilogue", "fuse_bn_gradient"),
)
class PointwiseCluster(Transform):
    """All results of a cluster have one shape and are float32. It runs where its last node did.

    So whoever reads from the cluster must run after that node: then no path leaves the cluster and comes back.
    """

    greedy = True

    def __init__(self) -> None:
        """Start without a cluster."""
        self._made = _Cluster([], [], [])

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """Pointwise float32 nodes of one device and result shape."""
        if not _may_join(graph, node):
            return False
        if not partial:
            return True
        first, nodes = partial[0], [*partial, node]
        last = max(one.order for one in nodes)
        return (
            len(nodes) <= MOST_NODES
            and node.device == first.device
            and node.outputs[0].spec == first.outputs[0].spec
            and len(_inputs(nodes)) <= MOST_INPUTS
            and all(one.order == last or graph.movable(one, last, nodes) for one in nodes)
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """At least two nodes, float32 if that is all that is known of them, a result, texts that are short enough."""
        if len(match) < 2 or (match[0].outputs[0].spec is None and not any(declares_float(node) for node in match)):
            return False
        self._made = _cluster(graph, sorted(match, key=lambda node: node.order))
        return len(self._made.outputs) > 0 and all(len(text) <= LONGEST for text in self._made.texts)

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put one Pointwise in place of the last node."""
        nodes, cluster = sorted(match, key=lambda node: node.order), self._made
        graph.remove(*nodes)
        made = graph.add(
            "Pointwise",
            cluster.inputs,
            cluster.outputs,
            like=nodes[-1],
            order=(*nodes[-1].order, 0),
            origins=[origin for node in nodes for origin in node.origins],
            copy_arguments=False,
            expressions=cluster.texts,
            **({} if nodes[0].outputs[0].spec is not None else {"alike": 1}),
        )
        for value in (value for node in nodes for value in node.outputs if value not in cluster.outputs):
            graph.explain(value, "fused into", made.outputs[0])


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What a cluster reads, what others need of it, and the formulas of that."""

    inputs: list[Value]
    outputs: list[Value]
    texts: list[str]


def _may_join(graph: Graph, node: Node) -> bool:
    return (
        len(node.inputs) > 0
        and node.view.schema.formulas is not None
        and not any(_replaces_fixed(graph, value) for value in node.outputs)
        and formulas(node) is not None
        and (_is_known(node) or (_is_unknown(node) and keeps_shape(node)))
    )


def _is_known(node: Node) -> bool:
    specs = [value.spec for value in (*node.inputs, *node.outputs)]
    floats = all(isinstance(spec, TensorSpec) and spec.dtype is DataType.FLOAT for spec in specs)
    return floats and broadcasts_plainly(node)


def _is_unknown(node: Node) -> bool:
    return all(value.spec is None for value in node.outputs)


def _replaces_fixed(graph: Graph, value: Value) -> bool:
    """Whether a value takes the name of an older one, as updated parameters do: that asks for an in-place pair."""
    return value.pinned and len(graph.pinned[value.name]) > 1


def _inputs(nodes: Sequence[Node]) -> list[Value]:
    made = {value for node in nodes for value in node.outputs}
    return list(dict.fromkeys(value for node in nodes for value in node.inputs if value not in made))


def _cluster(graph: Graph, nodes: Sequence[Node]) -> _Cluster:
    outputs = [
        value
        for node in nodes
        for value in node.outputs
        if value.kept or any(reader not in nodes for reader in value.readers)
    ]
    inputs, result = _inputs(nodes), nodes[0].outputs[0].spec
    # The first input is the one whose memory a result may take.
    inputs.sort(key=lambda value: not (graph.dies_at(value, nodes[-1]) and value.spec == result))
    known = compose(nodes, {value: f"x{number}" for number, value in enumerate(inputs)})
    return _Cluster(inputs, outputs, [known[value].text() for value in outputs])
