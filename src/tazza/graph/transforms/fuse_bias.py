"""A vector that is added to what a layer without bias gives becomes its bias.

y = Conv(x, W)                                   y = MatMul(x, W; trans_b=1)
z = Add(y, b; broadcast=1, axis=1)               z = Add(y, b)
-> z = Conv(x, W, b)                             -> z = FC(x, W, b)
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.composition import broadcast_dims
from tazza.graph.graph import Graph, Node, overwrites
from tazza.graph.transform import Transform, transform
from tazza.ops.math.arithmetic import binaries
from tazza.ops.math.matmul import MATMUL
from tazza.ops.nn.conv import CONVS
from tazza.ops.nn.conv_transpose import CONV_TRANSPOSE
from tazza.ops.nn.fc import FC

CONVOLUTIONS = frozenset(one.type for one in (*CONVS, CONV_TRANSPOSE))


@transform("fuse_bias", help="added vectors become biases of convolutions and FC", after=("reorder_elimination",))
class FuseBias(Transform):
    """The vector must lie along the channels of the result, so its shape and that of the result must be known."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A layer that could have a bias and has none, then an Add that alone reads it."""
        if not partial:
            return node.pure and ((node.type in CONVOLUTIONS and len(node.inputs) == 2) or _is_fc(node))
        (layer,) = partial if len(partial) == 1 else (None,)
        return (
            layer is not None
            and node.view.schema is binaries["Add"]
            and layer.outputs[0].only_reader is node
            and node.inputs[0] is layer.outputs[0]
            and node.inputs[1] is not layer.outputs[0]
            and node.device == layer.device
            and _along_channels(layer, node)
            and graph.movable(layer, node.order, [layer, node])
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, and the result has not the fixed name of an input."""
        del graph
        return len(match) == 2 and not overwrites(match[1].outputs, (*match[0].inputs, match[1].inputs[1]))

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put the layer with a bias in place of the Add."""
        layer, add = match
        result = add.outputs[0]
        arguments = {} if layer.type in CONVOLUTIONS else {"axis_w": layer.view.axis_b}
        graph.remove(layer, add)
        graph.add(
            layer.type if layer.type in CONVOLUTIONS else FC.type,
            [*layer.inputs, add.inputs[1]],
            [result],
            like=layer,
            order=(*add.order, 0),
            origins=(*layer.origins, *add.origins),
            copy_arguments=layer.type in CONVOLUTIONS,
            **arguments,
        )
        graph.explain(layer.outputs[0], "fused into", result)


def _is_fc(node: Node) -> bool:
    """Whether a node is a MatMul that FC can do: its result has two dimensions."""
    op = node.view
    return (
        node.view.schema is MATMUL and len(node.inputs) == 2 and op.axis_a == 1 and not op.trans_a and bool(op.trans_b)
    )


def _along_channels(layer: Node, node: Node) -> bool:
    """Whether the second operand is a vector (M) that lies along the channels of the first."""
    result, vector = node.inputs[0].tensor, node.inputs[1].tensor
    if result is None or vector is None or len(vector.shape) != 1 or vector.dtype is not result.dtype:
        return False
    rank = len(result.shape)
    last = layer.type not in CONVOLUTIONS or str(layer.view.order).upper() == "NHWC"
    axis = rank - 1 if last else 1
    extents = tuple(result.shape[i] if i == axis else 1 for i in range(rank))
    lies = broadcast_dims(node)["B"]
    return (1,) * (rank - len(lies)) + lies == extents
