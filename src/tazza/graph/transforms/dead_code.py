"""What nobody needs is not computed: operators whose outputs nobody reads, and gradients among several outputs."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.errors import TazzaError
from tazza.graph.graph import Graph, Node, Value
from tazza.graph.transform import Transform, transform
from tazza.proto import OperatorDef


def _unused(value: Value) -> bool:
    return not value.readers and not value.kept


@transform("dead_code", help="remove operators and gradients that nobody reads", after=("common_subexpression",))
class DeadCode(Transform):
    """Backwards, so that what only dead operators read is dead as well.

    Of an operator that is needed, optional outputs at the end are left out where its schema lets it: a convolution's
    gradient without dX.
    """

    backwards = True

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """One node that only computes, with an unused last output."""
        del graph
        return not partial and node.pure and len(node.outputs) > 0 and _unused(node.outputs[-1])

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """No output is used, or the last one is optional, and nothing to the others."""
        del graph
        (node,) = match
        last = node.view.schema.outputs_by_letter[node.view.output_letters[-1]]
        return all(map(_unused, node.outputs)) or (last.optional and not last.decides)

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Remove the node, or give it fewer outputs."""
        (node,) = match
        if all(map(_unused, node.outputs)):
            graph.remove(node)
            for value in node.outputs:
                graph.explain(value, "removed: nothing reads it")
            return
        specs = [node.view.schema.outputs_by_letter[letter] for letter in node.view.output_letters]
        decided = max((place for place, spec in enumerate(specs) if spec.decides), default=0)
        for count in range(decided + 1, len(node.outputs)):
            if all(map(_unused, node.outputs[count:])) and _shortened(graph, node, count):
                return


def _shortened(graph: Graph, node: Node, count: int) -> bool:
    """Replace the node by one with the first `count` outputs, unless its schema refuses."""
    definition = OperatorDef()
    definition.CopyFrom(node.definition)
    del definition.output[count:]
    try:
        node.view.schema.view(definition)
    except TazzaError:
        return False  # these outputs come all or none
    graph.remove(node)
    graph.add(node.type, node.inputs, node.outputs[:count], like=node, order=(*node.order, 0), origins=node.origins)
    for value in node.outputs[count:]:
        graph.explain(value, "removed: nothing reads it")
    return True
