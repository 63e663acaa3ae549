"""A 1x1 convolution and the depthwise one that alone reads it become one operator, where an engine gains by that.

    h = FusedConv(x, w, b; kernel=1, epilogue="...")
    y = FusedConv(h, v, c; kernel=3, pad=1, group=M, epilogue="...")
    ->
    y = FusedConvDepthwise(x, w, b, v, c; kernel=3, pad=1, group=M, inner="...", epilogue="...")

Nets widen h and look around in it, and now nobody needs all of it at once. For inference: gradient operators read h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tazza.graph.graph import Graph, Node, overwrites
from tazza.graph.transform import Transform, transform
from tazza.operator import make_argument
from tazza.ops.nn.conv import CONVS
from tazza.ops.nn.fused import FUSED_CONV
from tazza.ops.nn.fused_depthwise import FUSED_CONV_DEPTHWISE
from tazza.ops.nn.window import Window, channels_first_dims
from tazza.proto import OperatorDef

LAYERS = frozenset(one.type for one in (*CONVS, FUSED_CONV))


@transform(
    "fuse_depthwise",
    help="a 1x1 convolution becomes part of the depthwise one behind it",
    after=("fuse_epilogue", "fuse_bias"),
    needs=LAYERS,
)
class FuseDepthwise(Transform):
    """Both have biases, no other operands, filters of known shape, and no engine that the user asked for."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A 1x1 convolution, then a depthwise one that alone reads it."""
        if not partial:
            return _is_pointwise(node)
        if len(partial) > 1:
            return False
        (first,) = partial
        return (
            first.outputs[0].only_reader is node
            and node.inputs[0] is first.outputs[0]
            and _is_depthwise(node)
            and node.device == first.device
            and str(node.view.order).upper() == str(first.view.order).upper()
            and graph.movable(first, node.order, [first, node])
            and _taken(graph, first, node)
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, and the result has not the fixed name of an input."""
        del graph
        return len(match) == 2 and not overwrites(match[1].outputs, (*match[0].inputs, *match[1].inputs[1:]))

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put both in place of the second."""
        first, second = match
        result = second.outputs[0]
        graph.rely(first.inputs[1], second.inputs[1])
        graph.remove(first, second)
        graph.add(
            FUSED_CONV_DEPTHWISE.type,
            [*first.inputs, *second.inputs[1:]],
            [result],
            like=second,
            order=(*second.order, 0),
            origins=(*first.origins, *second.origins),
            **_changed(first, second),
        )
        graph.explain(first.outputs[0], "fused into", result)


def _changed(first: Node, second: Node) -> dict[str, Any]:
    """Return the arguments that are not simply those of the second; None for what the operator has not."""
    lost = [arg.name for arg in second.definition.arg if arg.name not in FUSED_CONV_DEPTHWISE.args]
    return {**dict.fromkeys(lost), "inner": _epilogue(first), "epilogue": _epilogue(second)}


def _epilogue(node: Node) -> str:
    return str(node.view.epilogue) if node.type == FUSED_CONV.type else "y"


def _taken(graph: Graph, first: Node, second: Node) -> bool:
    judge = graph.context.takes_operator
    if judge is None:
        return True
    changed = _changed(first, second)
    values = (*first.inputs, *second.inputs[1:])
    definition = OperatorDef(type=FUSED_CONV_DEPTHWISE.type, input=[value.name for value in values], output=["Y"])
    definition.arg.extend(argument for argument in second.definition.arg if argument.name not in changed)
    definition.arg.extend(make_argument(name, text) for name, text in changed.items() if text is not None)
    return judge(FUSED_CONV_DEPTHWISE.view(definition), [value.tensor for value in values], second.place.kind)


def _is_layer(node: Node) -> bool:
    """Whether a node is a convolution with a bias and nothing else, of which the user said nothing about engines."""
    return (
        node.type in LAYERS
        and node.pure
        and node.view.input_letters == ("X", "W", "b")
        and len(node.outputs) == 1
        and not node.definition.engine
    )


def _filters(node: Node) -> tuple[int | None, ...] | None:
    """Return (M, C/G, k...), or None where that is not known."""
    spec = node.inputs[1].tensor
    if spec is None or not spec.shape_known or len(spec.shape) < 3:
        return None
    return tuple(channels_first_dims(node.view.order, spec.shape))


def _is_pointwise(node: Node) -> bool:
    """Whether each pixel goes its own way."""
    if not _is_layer(node) or node.view.group != 1:
        return False
    filters, window = _filters(node), Window.of(node.view)
    pads = (*window.head, *window.tail)
    return filters is not None and set(filters[2:]) == {1} and set(window.stride) == {1} and not any(pads)


def _is_depthwise(node: Node) -> bool:
    """Whether each channel goes its own way."""
    filters = _filters(node) if _is_layer(node) else None
    return filters is not None and filters[1] == 1 and node.view.group == filters[0]
