"""The gradient of sums of rows becomes part of the update of these rows: no row of it is written down.

dw = SparseLengthsIndicesInGradientSumGradient(dy, lengths, indices)
w, m = RowWiseSparseAdagrad(w, m, indices, dw, lr)
->
w, m = RowWiseSparseAdagradFusedWithSparseLengthsSumGradient(w, m, indices, dy, lr, lengths)
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.graph.graph import Graph, Node, overwrites
from tazza.graph.transform import Transform, transform
from tazza.operator.choice import keeps_engines
from tazza.ops.optimizer.adagrad import ADAGRAD
from tazza.ops.optimizer.fused_adagrad import fused_updates
from tazza.ops.sparse.segment import BY_LENGTHS
from tazza.ops.sparse.segment_reduction import segment_gradients


def _reducer(type: str) -> str | None:
    """Return the name of the reducer whose gradient an operator gives, of rows that indices pick."""
    row = segment_gradients.rows.get(type)
    if row is None or row.division is not BY_LENGTHS or row.letters != "dY LENGTHS INDICES":
        return None
    return row.reducer.name


@transform(
    "fuse_row_update",
    help="gradients of sums of rows become part of the update of these rows",
    needs=[type for type in segment_gradients.rows if _reducer(type) is not None],
)
class FuseRowUpdate(Transform):
    """Nobody else reads the gradient, and both pick the same rows."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """A gradient of sums or means of rows, then an update of these rows, which alone reads it."""
        if not partial:
            return _reducer(node.type) is not None and node.outputs[0].only_reader is not None
        if len(partial) > 1:
            return False
        (first,) = partial
        return (
            _fused(first, node) is not None
            and first.outputs[0].only_reader is node
            and node.device == first.device
            and node.input("dW") is first.outputs[0]
            and node.input("indices") is first.input("INDICES")
            and all(graph.available(value, node.order, first) for value in first.inputs)
        )

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Both are there, and engines that were asked for can do both."""
        del graph
        if len(match) != 2:
            return False
        first, second = match
        type = _fused(first, second)
        assert type is not None, "the pattern says so"
        return keeps_engines(second.view, type, second.place.kind) and not overwrites(second.outputs, first.inputs)

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Put the fused operator in place of the second."""
        first, second = match
        type = _fused(first, second)
        dY, lengths = first.input("dY"), first.input("LENGTHS")
        W, M, indices, lr = (second.input(letter) for letter in ("W", "M", "indices", "lr"))
        inputs = [value for value in (W, M, indices, dY, lr, lengths) if value is not None]
        assert type is not None, "the pattern says so"
        graph.remove(first, second)
        made = graph.add(
            type,
            inputs,
            second.outputs,
            like=second,
            order=(*second.order, 0),
            origins=(*first.origins, *second.origins),
            epsilon=second.view.epsilon,
            weight_decay=second.view.weight_decay,
        )
        graph.explain(first.outputs[0], "fused into", made.outputs[0])


def _fused(first: Node, second: Node) -> str | None:
    """Return the operator that does what two nodes do; None if there is none."""
    reducer = _reducer(first.type)
    if reducer is None:
        return None
    for type, row in fused_updates.rows.items():
        update = row.of.row_type if row.of is ADAGRAD else row.of.type
        if update == second.type and row.reducer.name == reducer and not row.late and not row.reducer.weighted:
            return type if second.type != ADAGRAD.row_type or second.view.decay == 1 else None
    return None
