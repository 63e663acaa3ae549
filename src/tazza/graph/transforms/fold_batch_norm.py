"""Normalization with fixed statistics goes into the weights of the layer before it.

For Y = W * X + b and Z = slope * Y + shift, with one slope and shift a channel: Z = (slope W) * X + (slope b + shift).
So it is with the same written as a Mul and an Add of vectors, or as one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tazza.graph.channels import ADD, MUL, as_vector, vector_behind
from tazza.graph.graph import Graph, Node, Order, Value, overwrites
from tazza.graph.transform import Transform, transform
from tazza.operator import OpView
from tazza.ops.fill.fill import CONSTANT_FILL
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
    help="fold SpatialBN in test mode, AffineChannel, Mul and Add of vectors into the convolution or FC before",
    after=("fuse_bias",),
    needs=[*FOLDS, ADD.type, MUL.type],
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
            and (_folds(layer, node) or _vector(layer, node, last) is not None)
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
        vectors = {node: _vector(layer, node, before) for before, node in itertools.pairwise(match)}
        graph.rely(*(value for value in vectors.values() if value is not None))
        if any(vectors.values()):
            graph.rely(layer.inputs[1])
        graph.remove(*match)
        for number, node in enumerate(others):
            order, vector = (*last.order, number), vectors[node]
            if vector is None:
                weights = _normalized(graph, layer, node, weights, order)
            elif node.view.schema is ADD:
                weights = _shifted(graph, layer, node, vector, weights, order)
            else:
                weights = _scaled(graph, layer, node, vector, weights, order)
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


def _normalized(graph: Graph, layer: Node, node: Node, weights: list[Value], order: Order) -> list[Value]:
    """Fold SpatialBN or AffineChannel into the weights W and maybe b, and return the new W and b."""
    type, letters, arguments = FOLDS[node.type]
    parameters = [value for value in map(node.input, letters) if value is not None]
    given = {name: node.view.arguments[name] for name in arguments}
    return _folded(graph, layer, node, type, [*weights, *parameters], order, **given)


def _scaled(graph: Graph, layer: Node, node: Node, vector: Value, weights: list[Value], order: Order) -> list[Value]:
    """Fold a Mul: an AffineChannel whose bias is 0."""
    zero = graph.fresh(vector, f"{vector.name}_zero")
    graph.add(CONSTANT_FILL.type, [vector], [zero], like=node, order=(*order, 0), copy_arguments=False, value=0.0)
    return _folded(graph, layer, node, FOLD_AFFINE_CHANNEL.type, [*weights, vector, zero], (*order, 1))


def _shifted(graph: Graph, layer: Node, node: Node, vector: Value, weights: list[Value], order: Order) -> list[Value]:
    """Fold an Add: W stays, b grows."""
    W, *biases = weights
    vector = as_vector(graph, vector, node, (*order, 0))
    if not biases:
        return [W, vector]
    made = graph.fresh(biases[0], f"{_bias_name(layer)}_folded")
    graph.add(
        ADD.type,
        [biases[0], vector],
        [made],
        like=node,
        order=(*order, 1),
        origins=node.origins,
        copy_arguments=False,
    )
    return [W, made]


def _folded(
    graph: Graph, layer: Node, node: Node, type: str, inputs: list[Value], order: Order, **arguments: float
) -> list[Value]:
    """Add the operator that computes new W and b, and return these."""
    made = [
        graph.fresh(inputs[0], f"{layer.inputs[1].name}_folded"),
        graph.fresh(inputs[-1], f"{_bias_name(layer)}_folded"),
    ]
    graph.add(
        type,
        inputs,
        made,
        like=node,
        order=order,
        origins=node.origins,
        copy_arguments=False,
        axis=_axis(layer.view),
        group=_group(layer.view),
        **arguments,
    )
    return made


def _bias_name(layer: Node) -> str:
    return layer.inputs[2].name if len(layer.inputs) > 2 else f"{layer.outputs[0].name}_bias"


def _vector(layer: Node, node: Node, before: Node) -> Value | None:
    """Return the constant vector by which a Mul or Add scales or shifts the channels that `layer` gives, if it does."""
    if node.view.schema not in (ADD, MUL) or not node.pure:
        return None
    vector = vector_behind(layer, node, before.outputs[0])
    return vector if vector is not None and vector.constant else None


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
