"""Two multiplications by constants, one behind the other, are one.

y = Scale(x; scale=2)
z = Scale(y; scale=3)      ->      z = Scale(x; scale=6)
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node, overwrites
from tazza.graph.transform import Transform, transform
from tazza.ops.math.scale import SCALE


@transform("scale_chain", help="factors that follow each other are multiplied", after=("canonicalise",))
class ScaleChain(Transform):
    """Legal where nobody else reads what is between."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A Scale, then the Scale that alone reads it."""
        if node.view.schema is not SCALE:
            return False
        if not partial:
            return node.pure
        first = partial[0]
        return (
            len(partial) == 1
            and first.outputs[0].only_reader is node
            and first.device == node.device
            and graph.movable(first, node.order, [first, node])
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, and the result has not the fixed name of what they read."""
        del graph
        return len(match) == 2 and not overwrites(match[1].outputs, match[0].inputs)

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put one in place of the second, and say where the value between went."""
        first, second = match
        graph.remove(first, second)
        graph.add(
            SCALE.type,
            first.inputs,
            second.outputs,
            like=first,
            order=(*second.order, 0),
            origins=(*first.origins, *second.origins),
            scale=first.view.scale * second.view.scale,
        )
        graph.explain(first.outputs[0], "multiplied into", second.outputs[0])
