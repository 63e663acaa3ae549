"""Pairs of permutations and copies that undo each other go: what the second gives is what the first got."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node
from tazza.graph.transform import Transform, transform

INVERSES = {
    ("NCHW2NHWC", "NHWC2NCHW"),
    ("NHWC2NCHW", "NCHW2NHWC"),
    ("CopyCPUToGPU", "CopyGPUToCPU"),
    ("CopyGPUToCPU", "CopyCPUToGPU"),
    ("Transpose", "Transpose"),
}
"""Types of a first and a second operator of which the second may undo the first. Third parties may add theirs."""


@transform("reorder_elimination", help="remove reorders that undo each other", after=("dead_code",))
class ReorderElimination(Transform):
    """Y = reorder back (reorder (X)): who reads Y reads X. The first reorder stays when others read it."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """The second of a pair, then the first."""
        del graph
        if not partial:
            return any(node.type == second for _, second in INVERSES) and node.pure
        (second,) = partial if len(partial) == 1 else (None,)
        return (
            second is not None
            and second.inputs[0].producer is node
            and (node.type, second.type) in INVERSES
            and _undoes(node, second)
        )

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


def _undoes(first: Node, second: Node) -> bool:
    if first.type != second.type:
        return True
    one, two = list(first.view.axes), list(second.view.axes)
    if not one or not two:  # no axes mean all in reverse
        return one == two
    return len(one) == len(two) and [one[axis] for axis in two] == list(range(len(one)))
