"""Results are written over inputs that nobody needs any more: they take the names of those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tazza.graph.graph import Graph, Node, Value
from tazza.graph.transform import Transform, transform
from tazza.operator import may_overwrite
from tazza.tensor import TensorSpec


@transform("in_place", help="write results over inputs that die, where the schema allows it", after=("accumulate",))
class InPlace(Transform):
    """Only where the schema names the pair, both have the same spec, and neither name is fixed.

    What comes from outside, survives, or is computed once is never overwritten.
    """

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """One node with such a pair."""
        return not partial and len(node.view.schema.in_place) > 0 and bool(_pairs(graph, node))

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Give each output the name of its input, each input once."""
        (node,) = match
        taken: set[Value] = set()
        for source, target in _pairs(graph, node):
            if source not in taken and target not in taken:
                taken |= {source, target}
                graph.explain(target, f"written in place of {source.name!r}")
                target.name = source.name


def _pairs(graph: Graph, node: Node) -> list[tuple[Value, Value]]:
    found: list[tuple[Value, Value]] = []
    for output, target in enumerate(node.outputs):
        for place in may_overwrite(node.view, output):
            source = node.inputs[place]
            if (
                source.name != target.name
                and not target.pinned
                and _same_spec(node, output, place)
                and graph.dies_at(source, node)
                and node.may_overwrite(source, target)
            ):
                found.append((source, target))
    return found


def _memory(spec: TensorSpec) -> TensorSpec:
    return replace(spec, quantization=None)


def _same_spec(node: Node, output: int, place: int) -> bool:
    """Whether an output has the spec of an input; where specs are not known, whether the schema says so."""
    target, source = node.outputs[output], node.inputs[place]
    letter, other = node.view.output_letters[output], node.view.input_letters[place]
    if source.spec is not None and target.spec is not None:
        # What integers stand for is no matter of memory: the schema says that they may be overwritten.
        taken_over, made = source.tensor, target.tensor
        return taken_over is not None and made is not None and _memory(taken_over) == _memory(made)
    schema = node.view.schema
    like = schema.outputs_by_letter[letter].like
    if like is not None:
        return node.input(like) is source
    return schema.inputs_by_letter[other].like == letter
