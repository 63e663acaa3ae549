"""Sums write over an operand that nobody needs any more: it is moved to the front, where it may be overwritten."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node
from tazza.graph.transform import Transform, transform


@transform("accumulate", help="sums, as of gradients, gather in an operand that dies", after=("pointwise_cluster",))
class Accumulate(Transform):
    """X0 + X1 = X1 + X0 to the last bit, so only the first two operands change places. `in_place` does the rest."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A sum whose second operand dies, while the first does not."""
        return (
            not partial
            and node.view.schema.commuting is not None
            and node.view.input_letters[:2] == (node.view.schema.commuting,) * 2
            and not graph.dies_at(node.inputs[0], node)
            and graph.dies_at(node.inputs[1], node)
            and node.inputs.count(node.inputs[1]) == 1
            and not any(value.pinned and value.name == node.inputs[0].name for value in node.outputs)
        )

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Exchange the two."""
        del graph
        (node,) = match
        first, second, *others = node.inputs
        node.inputs = (second, first, *others)
