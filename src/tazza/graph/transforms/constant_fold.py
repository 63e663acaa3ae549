"""What depends on constants only is computed once: such operators become the prelude of the net."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node
from tazza.graph.transform import Transform, transform


@transform("constant_fold", help="compute once what depends on constants only", after=("fold_batch_norm",))
class ConstantFold(Transform):
    """Mark nodes that belong to the prelude. What must survive a run is still made in every run.

    Operators that draw random numbers, count or read data are never marked; nor is what depends on them.
    """

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """One node, all of whose outputs are constant, behind such nodes only."""
        del graph
        return (
            not partial
            and len(node.outputs) > 0
            and all(value.constant for value in node.outputs)
            and all(value.producer is None or value.producer.hoisted for value in node.inputs)
        )

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Mark it."""
        (node,) = match
        node.hoisted = True
        for value in node.outputs:
            graph.explain(value, "computed once, before the first run")
