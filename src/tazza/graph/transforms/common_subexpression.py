"""What is computed twice is computed once: operators of one type with the same inputs and arguments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tazza.graph.graph import Graph, Node
from tazza.graph.transform import Transform, transform


@transform(
    "common_subexpression",
    help="compute once what several operators compute alike",
    after=("canonicalise",),
)
class CommonSubexpression(Transform):
    """Of operators that compute the same, the first stays; those that draw random numbers or see files never match."""

    def __init__(self) -> None:
        """Start without any seen."""
        self._first: dict[Hashable, list[Node]] = {}

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """One node that an earlier one equals."""
        del graph
        if partial or not node.pure or not node.outputs:
            return False
        listed = self._first.setdefault((node.type, node.device, node.inputs, len(node.outputs)), [])
        if self._twin(listed, node) is not None:
            return True
        listed.append(node)
        return False

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """The second one's outputs need no name of their own, and the first one's are there for all who read them."""
        (node,) = match
        twin = self._twin_of(node)
        legal = not any(value.pinned for value in node.outputs) and all(
            map(graph.can_merge, node.outputs, twin.outputs)
        )
        return legal

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Let all read the first one's outputs."""
        (node,) = match
        twin = self._twin_of(node)
        graph.remove(node)
        for old, new in zip(node.outputs, twin.outputs, strict=True):
            graph.merge(old, new)
        twin.origins = (*twin.origins, *node.origins)

    def _twin_of(self, node: Node) -> Node:
        twin = self._twin(self._first[node.type, node.device, node.inputs, len(node.outputs)], node)
        assert twin is not None, "the pattern found one"
        return twin

    @staticmethod
    def _twin(listed: Sequence[Node], node: Node) -> Node | None:
        return next((one for one in listed if one.view.arguments == node.view.arguments), None)
