"""Chosen dot products of all pairs of vectors become one operator, which makes no matrix of them.

    s, _ = Concat(x0, x1, ...; axis=1, add_axis=1)        (N, n, D)
    p = BatchMatMul(s, s; trans_b=1)                      (N, n, n)
    f = Flatten(p)                                        (N, n n)
    y = BatchGather(f, pairs)
    ->
    y = ConcatBatchMatMulBatchGatherOp(pairs, x0, x1, ...)

So nets let features meet that come from tables of rows. For inference: gradient operators read what is between.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node, Value, overwrites
from tazza.graph.transform import Transform, transform
from tazza.operator import FLOAT, Spec
from tazza.ops.math.matmul import BATCH_MATMUL
from tazza.ops.math.pair_product import PAIR_PRODUCT
from tazza.ops.shape.concat import adds_axis, concats
from tazza.ops.shape.reshape import FLATTEN
from tazza.ops.sparse.gather import gathers
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec


@transform(
    "fuse_pair_product",
    help="chosen dot products of all pairs of vectors become one operator",
    after=("common_subexpression", "canonicalise"),
    needs=[gathers["BatchGather"].type],
)
class FusePairProduct(Transform):
    """Nobody else reads what is between; the vectors are known to be rows of float32, no engine was asked for."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """The four operators, each of which alone reads the one before."""
        if len(partial) == len(STEPS) or node.definition.engine or not node.pure or not STEPS[len(partial)](node):
            return False
        if not partial:
            return True
        before = partial[-1].outputs[0]
        return (
            before.only_reader is node
            and node.inputs[0] is before
            and node.device == partial[0].device
            and (len(partial) < len(STEPS) - 1 or _taken(graph, partial[0], node))
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """All are there, and the result has not the fixed name of a vector."""
        del graph
        return len(match) == len(STEPS) and not overwrites(match[-1].outputs, match[0].inputs)

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put the one operator in place of the last."""
        first, last = match[0], match[-1]
        result = last.outputs[0]
        graph.rely(*first.inputs)
        graph.remove(*match)
        graph.add(
            PAIR_PRODUCT.type,
            [last.inputs[1], *first.inputs],
            [result],
            like=last,
            order=(*last.order, 0),
            origins=tuple(origin for node in match for origin in node.origins),
            copy_arguments=False,
        )
        for node in match[:-1]:
            for value in node.outputs:
                graph.explain(value, "fused into", result)


def _is_stack(node: Node) -> bool:
    """Whether rows become matrices of them: it takes float32 (N, D), and all inputs have one form."""
    if node.type not in concats.rows or not adds_axis(node.view) or node.view.axis not in (1, -2):
        return False
    return not _is_read(node.outputs[1]) and any(map(_is_rows, node.inputs))


def _is_rows(value: Value) -> bool:
    spec = value.spec if value.spec is not None or value.producer is None else _whatever_comes(value, value.producer)
    if not isinstance(spec, TensorSpec) or spec.dims is None:
        return False
    return len(spec.dims) == 2 and spec.dtype is DataType.FLOAT


def _whatever_comes(value: Value, maker: Node) -> Spec | None:
    """Return the spec of a result that has one element type, for any inputs of which nothing is known: indices."""
    schema, place = maker.view.schema, maker.outputs.index(value)
    if schema.outputs_by_letter[maker.view.output_letters[place]].dtypes != FLOAT:
        return None
    given: list[Spec | None] = []
    for letter, taken in zip(maker.view.input_letters, maker.inputs, strict=True):
        dtypes = schema.inputs_by_letter[letter].dtypes
        one = next(iter(dtypes)) if isinstance(dtypes, frozenset) else dtypes
        guess = TensorSpec(None, one) if isinstance(one, DataType) else None
        given.append(guess if taken.spec is None else taken.spec)
    return schema.infer_specs(maker.view, given).specs[place]


def _is_read(value: Value) -> bool:
    return bool(value.readers) or value.kept


def _is_square(node: Node) -> bool:
    """Whether all pairs of rows of a matrix are multiplied."""
    op = node.view
    return node.type == BATCH_MATMUL.type and node.inputs[0] is node.inputs[1] and bool(op.trans_b) and not op.trans_a


def _is_flat(node: Node) -> bool:
    return node.type == FLATTEN.type and node.view.axis == 1


def _is_choice(node: Node) -> bool:
    """Whether the same products are taken in each row."""
    return node.type == gathers["BatchGather"].type and not node.view.match_outer


STEPS = (_is_stack, _is_square, _is_flat, _is_choice)


def _taken(graph: Graph, first: Node, last: Node) -> bool:
    """Whether the vectors are there still, and some engine gains by the operator."""
    if not all(graph.available(value, last.order, first) for value in first.inputs):
        return False
    judge = graph.context.takes_operator
    if judge is None:
        return True
    values = [last.inputs[1], *first.inputs]
    definition = OperatorDef(type=PAIR_PRODUCT.type, input=[value.name for value in values], output=["Y"])
    return judge(PAIR_PRODUCT.view(definition), [value.tensor for value in values], last.place.kind)
