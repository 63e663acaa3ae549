"""Normalization with fixed statistics goes into the weights of the layer before it.

For Y = W * X + b and Z = slope * Y + shift, with one slope and shift a channel: Z = (slope W) * X + (slope b + shift).
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node, Order, Value, overwrites
from tazza.graph.transform import Transform, transform
from tazza.operator import OpView
from tazza.ops.nn.affine_channel import AFFINE_CHANNEL
from tazza.ops.nn.batch_norm import SPATIAL_BN
from tazza.ops.nn.conv import CONVS
from tazza.ops.nn.conv_transpose import CONV_TRANSPOSE
from tazza.ops.nn.fc import FC
from tazza.ops.nn.fold import FOLD_AFFINE_CHANNEL, FOLD_BATCH_NORM

LAYERS = frozenset(one.type for one in (*CONVS, FC, CONV_TRANSPOSE))
FOLDS = {
    SPATIAL_BN.type: (FOLD_BATCH_NORM.type, ("scale", "bias", "mean", "var"), ("epsilon",)),
    AFFINE_CHANNEL.type: (FOLD_AFFINE_CHANNEL.type, ("scale", "bias"), ()),
}
"""What is folded -> the operator that computes the new weights, the parameters that it reads, and arguments."""


@transform(
    "fold_batch_norm",
    help="fold SpatialBN in test mode, and AffineChannel, into the convolution or FC before",
    after=("fuse_bias",),
)
class FoldBatchNorm(Transform):
    """Only constant parameters, and only where nobody else sees what the layer gave before the normalization."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A layer with constant weights, then normalizations, each the only reader of the one before."""
        if not partial:
            weights = node.inputs[1:]
            return (
                node.type in LAYERS and node.pure and all(w.constant for w in weights) and _axis(node.view) is not None
            )
        layer, last = partial[0], partial[-1]
        return (
            last.outputs[0].only_reader is node
            and node.device == layer.device
            and _folds(layer, node)
            and graph.movable(layer, node.order, [*partial, node])
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """At least one normalization, and a result that has not the fixed name of the input."""
        del graph
        return len(match) > 1 and not overwrites(match[-1].outputs, match[0].inputs)

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put the operators that compute the new weights, and the layer with those, in place of the last one."""
        layer, *others = match
        last, weights = others[-1], list(layer.inputs[1:])
        result = last.outputs[0]
        graph.remove(*match)
        for number, node in enumerate(others):
            weights = _folded(graph, layer, node, weights, (*last.order, number))
        graph.add(
            layer.type,
            [layer.inputs[0], *weights],
            [result],
            like=layer,
            order=(*last.order, len(others)),
            origins=[origin for node in match for origin in node.origins],
        )
        for node in match[:-1]:
            graph.explain(node.outputs[0], "folded into", result)


def _folded(graph: Graph, layer: Node, node: Node, weights: list[Value], order: Order) -> list[Value]:
    """Add the operator that folds `node` into the weights W and maybe b, and return the new W and b."""
    type, letters, arguments = FOLDS[node.type]
    parameters = [value for value in map(node.input, letters) if value is not None]
    biases = layer.inputs[2:]
    first = biases[0].name if biases else f"{layer.outputs[0].name}_bias"
    made = [
        graph.fresh(weights[0], f"{layer.inputs[1].name}_folded"),
        graph.fresh(parameters[0], f"{first}_folded"),
    ]
    graph.add(
        type,
        [*weights, *parameters],
        made,
        like=node,
        order=order,
        origins=node.origins,
        copy_arguments=False,
        axis=_axis(layer.view),
        group=_group(layer.view),
        **{name: node.view.arguments[name] for name in arguments},
    )
    return made


def _folds(layer: Node, node: Node) -> bool:
    """Whether `node` normalizes the channels that `layer` gives, by constants."""
    if node.type not in FOLDS or not node.pure or len(node.outputs) != 1:
        return False
    if node.view.schema is SPATIAL_BN and not node.view.is_test:
        return False
    same_axis = layer.view.schema is FC or _order(layer.view) == _order(node.view)
    return same_axis and node.input("X") is not None and all(value.constant for value in node.inputs[1:])


def _order(op: OpView) -> str:
    return str(op.order).upper()


def _group(op: OpView) -> int:
    return int(op.arguments.get("group", 1))


def _axis(op: OpView) -> int | None:
    """Return the axis of W along which the output channels lie, None where they are not one axis of W and Y."""
    if op.schema is FC:
        return 0 if op.axis == 1 and op.axis_w == 1 else None
    if op.schema is CONV_TRANSPOSE:
        return 1 if _order(op) == "NCHW" else -1
    return 0
