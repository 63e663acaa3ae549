"""The gradient of what stands behind a batch normalization becomes part of the normalization's gradient.

y, m, v, sm, si = FusedSpatialBN(x, s, b, m, v; epilogue="relu(y)")
dz = ReluGradient(y, dy)
dx, ds, db = SpatialBNGradient(x, s, dz, sm, si)
->
dx, ds, db = FusedSpatialBNGradient(x, s, b, dy, sm, si; prologue="where(relu(y) > 0, dy, 0)")
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.composition import LONGEST, formula_names, formulas, shaped_as_result
from tazza.graph.graph import Graph, Node, Value, overwrites
from tazza.graph.transform import Transform, transform
from tazza.operator import Expression
from tazza.operator.choice import keeps_engines
from tazza.ops.nn.batch_norm import SPATIAL_BN_GRADIENT
from tazza.ops.nn.fused import FUSED_SPATIAL_BN, epilogue_of
from tazza.ops.nn.fused_batch_norm import FUSED_SPATIAL_BN_GRADIENT


@transform(
    "fuse_bn_gradient",
    help="gradients of epilogues become part of the gradient of a batch normalization",
    after=("fuse_epilogue",),
    needs=[SPATIAL_BN_GRADIENT.type],
)
class FuseBNGradient(Transform):
    """The epilogue reads nothing but the normalized values, which the gradient computes anew."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A pointwise gradient operator, then SpatialBNGradient, which alone reads what it gives."""
        if not partial:
            return len(node.outputs) == 1 and node.outputs[0].only_reader is not None and _sources(node) is not None
        if len(partial) > 1 or node.type != SPATIAL_BN_GRADIENT.type:
            return False
        (first,) = partial
        return (
            first.outputs[0].only_reader is node
            and node.device == first.device
            and _belongs(graph, first, node)
            and graph.movable(first, node.order, [first, node])
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, an engine takes the formula, and no result has the fixed name of an input."""
        if len(match) != 2:
            return False
        prologue, judge = _prologue(match[0]), graph.context.takes_epilogue
        return (
            len(prologue.text()) <= LONGEST
            and (judge is None or judge(FUSED_SPATIAL_BN_GRADIENT.type, prologue, match[1].place.kind))
            and keeps_engines(match[1].view, FUSED_SPATIAL_BN_GRADIENT.type, match[1].place.kind)
            and not overwrites(
                match[1].outputs, (*match[0].inputs, *match[1].inputs, _bias(_known_sources(match[0])[0]))
            )
        )

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put the fused operator in place of the second."""
        first, second = match
        maker, dY = _known_sources(first)
        X, scale, _, mean, inv_std = second.inputs
        prologue = _prologue(first)
        graph.remove(first, second)
        made = graph.add(
            FUSED_SPATIAL_BN_GRADIENT.type,
            [X, scale, _bias(maker), dY, mean, inv_std],
            second.outputs,
            like=second,
            order=(*second.order, 0),
            origins=(*first.origins, *second.origins),
            prologue=prologue.text(),
        )
        graph.explain(first.outputs[0], "fused into", made.outputs[0])


def _sources(node: Node) -> tuple[Node, Value] | None:
    """Return the normalization whose result a pointwise node reads, and the one other value that it reads."""
    if formulas(node) is None:
        return None
    makers = [value.producer for value in node.inputs if _normalized(value)]
    others = {value for value in node.inputs if not _normalized(value)}
    if len(set(makers)) != 1 or makers[0] is None or len(others) != 1:
        return None
    (dY,) = others
    return (makers[0], dY) if shaped_as_result(node, dY) else None


def _known_sources(node: Node) -> tuple[Node, Value]:
    found = _sources(node)
    assert found is not None, "the pattern has it"
    return found


def _bias(maker: Node) -> Value:
    found = maker.input("bias")
    assert found is not None, "the schema asks for it"
    return found


def _normalized(value: Value) -> bool:
    """Whether a value is a function of normalized values and of nothing else."""
    maker = value.producer
    return (
        maker is not None
        and maker.type == FUSED_SPATIAL_BN.type
        and value is maker.outputs[0]
        and maker.view.operands == 0
    )


def _belongs(graph: Graph, first: Node, node: Node) -> bool:
    """Whether a SpatialBNGradient is that of the normalization whose epilogue the first node derives."""
    maker, dY = _known_sources(first)
    return (
        len(node.inputs) == 5
        and not node.view.is_test
        and node.input("dY") is first.outputs[0]
        and node.input("X") is maker.input("X")
        and node.input("scale") is maker.input("scale")
        and node.input("mean") is maker.output("saved_mean")
        and node.input("inv_std") is maker.output("saved_inv_std")
        and str(node.view.order) == str(maker.view.order)
        and all(graph.available(value, node.order, first) for value in (dY, _bias(maker)))
    )


def _prologue(node: Node) -> Expression:
    """Return the node's formula over dy and y, the normalized values."""
    maker, dY = _known_sources(node)
    found = formulas(node)
    assert found is not None, "the pattern asked"
    epilogue = epilogue_of(maker.view)
    named = {
        name: Expression.parse("dy") if value is dY else epilogue
        for name, value in zip(formula_names(node), node.inputs, strict=True)
    }
    (formula,) = found
    return formula.substitute({name: named[name] for name in formula.names})
