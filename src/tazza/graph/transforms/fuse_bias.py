"""A vector that is added to what a layer without bias gives becomes its bias.

y = Conv(x, W)                                   y = MatMul(x, W; trans_b=1)
z = Add(y, b; broadcast=1, axis=1)               z = Add(y, b)
-> z = Conv(x, W, b)                             -> z = FC(x, W, b)

Constant weights of a MatMul that are not transposed, and constants that lie along the channels in more dimensions than
one, are brought into the form that the layer takes; that is done once for all runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.channels import ADD, CONVOLUTIONS, as_vector, vector_behind
from tazza.graph.graph import Graph, Node, Order, Value, overwrites
from tazza.graph.transform import Transform, transform
from tazza.operator.choice import keeps_engines
from tazza.ops.math.matmul import MATMUL
from tazza.ops.nn.fc import FC
from tazza.ops.shape.transpose import TRANSPOSE
from tazza.tensor import TensorSpec


@transform(
    "fuse_bias",
    help="added vectors become biases of convolutions and FC",
    after=("reorder_elimination",),
    needs=[ADD.type],
)
class FuseBias(Transform):
    """The vector must lie along the channels of the result, so its shape and that of the weights must be known."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A layer that could have a bias and has none, then an Add that alone reads it."""
        if not partial:
            return node.pure and ((node.type in CONVOLUTIONS and len(node.inputs) == 2) or _is_fc(node))
        (layer,) = partial if len(partial) == 1 else (None,)
        return (
            layer is not None
            and node.view.schema is ADD
            and layer.outputs[0].only_reader is node
            and node.device == layer.device
            and vector_behind(layer, node, layer.outputs[0]) is not None
            and graph.movable(layer, node.order, [layer, node])
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, and the result has not the fixed name of an input."""
        del graph
        if len(match) < 2:
            return False
        layer, add = match
        vectors = [value for value in add.inputs if value is not layer.outputs[0]]
        return not overwrites(add.outputs, (*layer.inputs, *vectors))

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put the layer with a bias in place of the Add."""
        layer, add = match
        result, (data, weights) = add.outputs[0], layer.inputs
        vector = vector_behind(layer, add, layer.outputs[0])
        assert vector is not None, "the pattern says so"
        graph.rely(vector, weights)
        arguments = {} if layer.type in CONVOLUTIONS else {"axis_w": layer.view.axis_b if layer.view.trans_b else 1}
        graph.remove(layer, add)
        bias = as_vector(graph, vector, add, (*add.order, 0))
        if not (layer.type in CONVOLUTIONS or layer.view.trans_b):
            weights = _transposed(graph, layer, weights, (*add.order, 1))
        graph.add(
            layer.type if layer.type in CONVOLUTIONS else FC.type,
            [data, weights, bias],
            [result],
            like=layer,
            order=(*add.order, 2),
            origins=(*layer.origins, *add.origins),
            copy_arguments=layer.type in CONVOLUTIONS,
            **arguments,
        )
        graph.explain(layer.outputs[0], "fused into", result)


def _is_fc(node: Node) -> bool:
    """Whether a node is a MatMul that FC can do: its result has two dimensions, and W is (M, K) or can be made so."""
    op = node.view
    if op.schema is not MATMUL or len(node.inputs) != 2 or op.axis_a != 1 or op.trans_a:
        return False
    if not keeps_engines(op, FC.type, node.place.kind):
        return False
    weights = node.inputs[1]
    if op.trans_b:
        return True
    return op.axis_b == 1 and weights.constant and weights.tensor is not None and len(weights.tensor.shape) == 2


def _transposed(graph: Graph, layer: Node, weights: Value, order: Order) -> Value:
    """Add what makes (M, K) of the weights (K, M)."""
    spec = weights.tensor
    assert spec is not None, "_is_fc says so"
    made = graph.fresh(weights, f"{weights.name}_transposed", TensorSpec(tuple(reversed(spec.shape)), spec.dtype))
    graph.add(TRANSPOSE.type, [weights], [made], like=layer, order=order, origins=layer.origins, copy_arguments=False)
    return made
