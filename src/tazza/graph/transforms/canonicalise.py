"""Operators that only hand on their input go: Copy, Alias, StopGradient, Dropout in tests, sums of one blob ..."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node, Value
from tazza.graph.transform import Transform, transform


@transform("canonicalise", help="remove operators that only hand on their input")
class Canonicalise(Transform):
    """Y = X, and nothing else that anybody looks at: who reads Y reads X."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """One node that hands on its input."""
        del graph
        return not partial and _handed_on(node) is not None

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """The other outputs are not used, and one of the two values can take the other's part."""
        (node,) = match
        others_unused = all(not value.readers and not value.kept for value in node.outputs[1:])
        source = _handed_on(node)
        assert source is not None, "the pattern says so"
        same_device = source.producer is None or source.producer.device == node.device
        return others_unused and same_device and graph.can_merge(node.outputs[0], source)

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Merge the two values."""
        (node,) = match
        source = _handed_on(node)
        assert source is not None, "the pattern says so"
        graph.remove(node)
        graph.merge(node.outputs[0], source)


def _handed_on(node: Node) -> Value | None:
    """Return the value that the first output of a node equals by its schema, None where it equals none."""
    position = node.view.schema.handed_on(node.view)
    return None if position is None else node.inputs[position]
