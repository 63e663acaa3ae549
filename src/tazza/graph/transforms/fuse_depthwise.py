"""A 1x1 convolution and the depthwise one that alone reads it become one operator.

    h = FusedConv(x, w, b; kernel=1, epilogue="...")
    y = FusedConv(h, v, c; kernel=3, pad=1, group=M, epilogue="...")
    ->
    y = FusedConvDepthwise(x, w, b, v, c; kernel=3, pad=1, group=M, inner="...", epilogue="...")

Nets widen h and look around in it; it is the largest blob of its part of the net, and now nobody needs all of it at
once. For inference: gradient operators read h.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node, overwrites
from tazza.graph.transform import Transform, transform
from tazza.operator import Expression
from tazza.ops.fused_depthwise import FUSED_CONV_DEPTHWISE
from tazza.ops.window import Window, channels_first_dims

LAYERS = ("Conv", "Conv2D", "FusedConv")


@transform(
    "fuse_depthwise",
    help="a 1x1 convolution becomes part of the depthwise one behind it",
    after=("fuse_epilogue", "fuse_bias"),
)
class FuseDepthwise(Transform):
    """Both have biases, no other operands, and filters of known shape."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A 1x1 convolution, then a depthwise one that alone reads it."""
        if not partial:
            return _is_pointwise(node)
        (first,) = partial if len(partial) == 1 else (None,)
        return (
            first is not None
            and first.outputs[0].only_reader is node
            and node.inputs[0] is first.outputs[0]
            and _is_depthwise(node)
            and node.device == first.device
            and node.definition.engine == first.definition.engine
            and str(node.view.order).upper() == str(first.view.order).upper()
            and graph.movable(first, node.order, [first, node])
            and _taken(graph, (first, node))
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, and the result has not the fixed name of an input."""
        del graph
        return len(match) == 2 and not overwrites(match[1].outputs, (*match[0].inputs, *match[1].inputs[1:]))

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put both in place of the second."""
        first, second = match
        result = second.outputs[0]
        graph.remove(first, second)
        graph.add(
            FUSED_CONV_DEPTHWISE.type,
            [*first.inputs, *second.inputs[1:]],
            [result],
            like=second,
            order=(*second.order, 0),
            origins=(*first.origins, *second.origins),
            inner=_epilogue(first),
            epilogue=_epilogue(second),
            operands=None,
        )
        graph.explain(first.outputs[0], "fused into", result)


def _is_layer(node: Node) -> bool:
    """Whether a node is a convolution of an image with a bias and nothing else."""
    return node.type in LAYERS and node.pure and node.view.input_slots == ("X", "W", "b") and len(node.outputs) == 1


def _filters(node: Node) -> tuple[int | None, ...] | None:
    """Return (M, C/G, kH, kW), or None where that is not known or not two-dimensional."""
    spec = node.inputs[1].tensor
    if spec is None or not spec.known or len(spec.shape) != 4:
        return None
    return tuple(channels_first_dims(node.view.order, spec.shape))


def _is_pointwise(node: Node) -> bool:
    if not _is_layer(node) or node.view.group != 1:
        return False
    filters, window = _filters(node), Window.of(node.view)
    return filters is not None and filters[2:] == (1, 1) and set(window.stride) == {1} and not any(_pads(window))


def _is_depthwise(node: Node) -> bool:
    """3x3 windows that stand side by side, or every second of them, padded by one."""
    filters = _filters(node) if _is_layer(node) else None
    if filters is None or filters[1:] != (1, 3, 3) or node.view.group != filters[0]:
        return False
    window = Window.of(node.view)
    return window.stride in ((1, 1), (2, 2)) and set(window.dilation) == {1} and set(_pads(window)) == {1}


def _pads(window: Window) -> tuple[int, ...]:
    return (*window.head, *window.tail)


def _epilogue(node: Node) -> str:
    return str(node.view.epilogue) if node.type == "FusedConv" else "y"


def _taken(graph: Graph, match: Sequence[Node]) -> bool:
    judge = graph.context.takes_epilogue
    formulas = (Expression.parse(_epilogue(node)) for node in match)
    return judge is None or all(judge(FUSED_CONV_DEPTHWISE.type, formula) for formula in formulas)
