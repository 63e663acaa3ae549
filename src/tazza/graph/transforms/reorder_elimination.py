"""Pairs of permutations and copies that undo each other go: what the second gives is what the first got."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node
from tazza.graph.transform import Transform, transform


@transform("reorder_elimination", help="remove reorders that undo each other", after=("dead_code",))
class ReorderElimination(Transform):
    """Y = reorder back (reorder (X)): who reads Y reads X. The first reorder stays when others read it."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """The second of a pair, then the first."""
        del graph
        if partial:
            return len(partial) == 1 and partial[0].inputs[0].producer is node
        return node.pure and len(node.inputs) == 1 and _undoes(node.inputs[0].producer, node)

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, and the value before them can stand for the one behind."""
        if len(match) != 2:
            return False
        second, first = match
        return graph.can_merge(second.outputs[0], first.inputs[0])

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Remove the second, and the first unless it is needed."""
        second, first = match
        middle = first.outputs[0]
        graph.remove(second)
        if not middle.readers and not middle.kept:
            graph.remove(first)
            graph.explain(middle, "removed: its reorder was undone")
        graph.merge(second.outputs[0], first.inputs[0])


def _undoes(first: Node | None, second: Node) -> bool:
    """Whether the schema of the first says that the second gives back what the first got, on the same device."""
    return first is not None and first.device == second.device and first.view.schema.gives_back(first.view, second.view)
