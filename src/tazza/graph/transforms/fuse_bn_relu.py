"""SpatialBN that trains, and the Relu behind it, become one operator; so do their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node, Value, overwrites
from tazza.graph.transform import Transform, transform

FORWARD, BACKWARD = "SpatialBNRelu", "SpatialBNReluGradient"


@transform("fuse_bn_relu", help="one operator for SpatialBN and Relu in training nets", after=("constant_fold",))
class FuseBNRelu(Transform):
    """The gradient of SpatialBN reads X, that of Relu reads its own Y: nobody needs what is between.

    Gradients become one where the Relu behind the same SpatialBN was fused before, so that the two operators fit.
    """

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """SpatialBN, then Relu; or ReluGradient, then SpatialBNGradient."""
        if not partial:
            return (node.type == "SpatialBN" and _trains(node)) or node.type == "ReluGradient"
        if len(partial) > 1:
            return False
        (first,) = partial
        return (
            first.outputs[0].only_reader is node
            and first.device == node.device
            and (_then_relu(first, node) or _then_gradient(first, node))
            and graph.movable(first, node.order, [first, node])
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, and no result has the fixed name of an input."""
        del graph
        return len(match) == 2 and not overwrites(match[1].outputs, (*match[0].inputs, *match[1].inputs))

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put the fused operator in place of the second."""
        first, second = match
        graph.remove(first, second)
        if first.type == "SpatialBN":
            like, type = first, FORWARD
            inputs, outputs = first.inputs, (second.outputs[0], *first.outputs[1:])
        else:
            like, type = second, BACKWARD
            inputs, outputs = _gradient_inputs(first, second), second.outputs
        origins = (*first.origins, *second.origins)
        made = graph.add(type, inputs, outputs, like=like, order=(*second.order, 0), origins=origins)
        graph.explain(first.outputs[0], "fused into", made.outputs[0])


def _trains(node: Node) -> bool:
    return not node.view.is_test and len(node.inputs) == 5 and node.view.num_batches <= 1


def _then_relu(first: Node, node: Node) -> bool:
    return first.type == "SpatialBN" and node.type == "Relu"


def _then_gradient(first: Node, node: Node) -> bool:
    if first.type != "ReluGradient" or node.type != "SpatialBNGradient" or not _trains(node):
        return False
    maker = first.inputs[0].producer  # of Y, which is the mask
    return (
        maker is not None
        and maker.type == FORWARD
        and node.input("dY") is first.outputs[0]
        and node.input("X") is maker.input("X")
        and node.input("mean") is maker.output("saved_mean")
    )


def _gradient_inputs(first: Node, node: Node) -> list[Value]:
    """Return X, scale, dY, the saved pair, and Y of the Relu."""
    Y, dY = first.inputs
    X, scale, _, mean, inv_std = node.inputs
    return [X, scale, dY, mean, inv_std, Y]
