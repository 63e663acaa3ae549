"""What follows a convolution of bytes becomes part of it: a rectifier, and a sum with other bytes.

    y = Int8Conv(x, W, b)                 y = Int8Conv(x, W, b; Y_scale, Y_zero_point)
    z = Int8Relu(y)                       z = Int8AddRelu(y, s; Y_scale, Y_zero_point)
    ->                                    ->
    z = Int8ConvRelu(x, W, b)             z = Int8FusedConv(x, W, b, s; relu=1, Y_scale, Y_zero_point of the sum)

The result of the convolution is not rounded to bytes on the way. Of two convolutions that meet in a sum the one that
runs last takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tazza.graph.graph import Graph, Node, Value, overwrites
from tazza.graph.transform import Transform, transform
from tazza.ops.quantized.int8_add import int8_sum_relu
from tazza.ops.quantized.int8_conv import INT8_CONV, INT8_CONV_RELU, INT8_FUSED_CONV
from tazza.ops.quantized.int8_relu import INT8_RELU


@transform(
    "fuse_int8",
    help="rectifiers and sums of bytes become part of the convolution before",
    after=("constant_fold",),
    needs=[INT8_CONV.type],
)
class FuseInt8(Transform):
    """Legal where nobody else reads what is between, and a rectifier has the scale of what it reads."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A convolution without a rectifier, then the only reader of its result."""
        if not partial:
            return node.type == INT8_CONV.type
        if len(partial) > 1:
            return False
        (layer,) = partial
        return (
            layer.outputs[0].only_reader is node
            and node.device == layer.device
            and node.definition.engine == layer.definition.engine
            and (_keeps_scale(layer, node) or _is_sum(layer, node))
            and graph.movable(layer, node.order, [layer, node])
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, and the result has not the fixed name of an input."""
        del graph
        return len(match) == 2 and not overwrites(match[1].outputs, (*match[0].inputs, *_others(*match)))

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put one operator in place of the second."""
        layer, node = match
        result, others, relu = node.outputs[0], _others(layer, node), int8_sum_relu(node.view)
        graph.remove(layer, node)
        made = INT8_CONV_RELU.type if relu is None else INT8_FUSED_CONV.type
        changed: dict[str, Any] = {} if relu is None else {"relu": int(relu), **_scale(node)}
        graph.add(
            made,
            [*layer.inputs, *others],
            [result],
            like=layer,
            order=(*node.order, 0),
            origins=(*layer.origins, *node.origins),
            **changed,
        )
        graph.explain(layer.outputs[0], "fused into", result)


def _scale(node: Node) -> dict[str, float | int]:
    return {"Y_scale": float(node.view.Y_scale), "Y_zero_point": int(node.view.Y_zero_point)}


def _keeps_scale(layer: Node, node: Node) -> bool:
    """Whether a rectifier gives bytes that count as those of the convolution do."""
    if node.type != INT8_RELU.type:
        return False
    said = node.view.given("Y_scale") or node.view.given("Y_zero_point")
    return not said or _scale(node) == _scale(layer)


def _is_sum(layer: Node, node: Node) -> bool:
    """Whether a sum adds other bytes to what a convolution gives, which no later one will do."""
    if int8_sum_relu(node.view) is None:
        return False
    others = _others(layer, node)
    if len(others) != 1:  # twice the same
        return False
    other = others[0].producer
    waits = other is not None and other.order > layer.order
    return not (waits and other is not None and other.type == INT8_CONV.type and others[0].only_reader is node)


def _others(layer: Node, node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not layer.outputs[0]]
