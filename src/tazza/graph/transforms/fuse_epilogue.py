"""What follows a convolution or product elementwise becomes its epilogue: one formula of the result `y`.

    y = Conv(x, W, b)                      y = FusedConv(x, W, b, shortcut; operands=1, epilogue="relu(y + s0)")
    s = Sum(y, shortcut)         ->
    z = Relu(s)

Further operands s0, s1 ... have the shape of the result. Of two layers that meet in a Sum the one that runs last takes
it, since what the other gives is there by then. Batch normalization that trains is a layer as well, whose result is the
first of its outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.composition import LONGEST, compose, formulas, shaped_as_result
from tazza.graph.graph import Graph, Node, Value, overwrites
from tazza.graph.transform import Transform, transform
from tazza.operator import Expression
from tazza.operator.choice import keeps_engines
from tazza.ops.nn.fused import FUSED, fused_type

FUSED_TYPES = frozenset(FUSED.values())


@transform(
    "fuse_epilogue",
    help="elementwise operators behind a layer become part of it",
    after=("constant_fold",),
)
class FuseEpilogue(Transform):
    """Legal where nobody else reads what is between; a gradient operator that does so ends the chain."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A layer, then pointwise nodes, each the only reader of the one before."""
        if not partial:
            return node.pure and fused_type(node.view) is not None
        layer, tail = partial[0], partial[-1].outputs[0]
        return (
            tail.only_reader is node
            and node.device == layer.device
            and len(node.outputs) == 1
            and formulas(node) is not None
            and all(
                value is tail or (value not in layer.outputs and shaped_as_result(node, value)) for value in node.inputs
            )
            and not any(_takes_it_later(layer, node, value) for value in node.inputs)
            and graph.movable(layer, node.order, [*partial, node])
            and _taken(graph, [*partial, node])
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """There is an epilogue, its text is short enough, and no result has the fixed name of another input."""
        if len(match) < 2:
            return False
        expression, operands = _epilogue(graph, match)
        layer, *_, last = match
        return (
            len(expression.text()) <= LONGEST
            and not overwrites(last.outputs, (*layer.inputs, *operands))
            and not overwrites(layer.outputs[1:], operands)
        )

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put the fused operator in place of the last node."""
        layer, result = match[0], match[-1].outputs[0]
        expression, operands = _epilogue(graph, match)
        graph.remove(*match)
        graph.add(
            FUSED[layer.type],
            [*layer.inputs, *operands],
            [result, *layer.outputs[1:]],
            like=layer,
            order=(*match[-1].order, 0),
            origins=[origin for node in match for origin in node.origins],
            operands=len(operands),
            epilogue=expression.text(),
        )
        for node in match[:-1]:
            graph.explain(node.outputs[0], "fused into", result)


def _takes_it_later(layer: Node, node: Node, value: Value) -> bool:
    """Whether another layer, which runs later, can take `node` as its epilogue."""
    other = value.producer
    return (
        other is not None
        and other.order > layer.order
        and (fused_type(other.view) is not None or other.type in FUSED_TYPES)
        and value.only_reader is node
        and other.device == layer.device
    )


def _taken(graph: Graph, match: Sequence[Node]) -> bool:
    made, judge, device = FUSED[match[0].type], graph.context.takes_epilogue, match[0].place.kind
    return keeps_engines(match[0].view, made, device) and (
        judge is None or judge(made, _epilogue(graph, match)[0], device)
    )


def _epilogue(graph: Graph, match: Sequence[Node]) -> tuple[Expression, list[Value]]:
    """Return the formula over y, s0, s1 ... and the operands; one whose memory Y may take comes first."""
    layer, *others = match
    inner = {node.outputs[0] for node in match}
    operands = list(dict.fromkeys(value for node in others for value in node.inputs if value not in inner))
    operands.sort(key=lambda value: not graph.dies_at(value, others[-1]))
    names = {value: f"s{number}" for number, value in enumerate(operands)} | {layer.outputs[0]: "y"}
    return compose(others, names)[others[-1].outputs[0]], operands
