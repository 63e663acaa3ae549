"""Adagrad of the rows that lengths of indices picked, from the gradient of what was made of each segment.

    Sparse...     as SparseAdagrad, with a sum of squares of each element
    RowWise...    as RowWiseSparseAdagrad, with one of each row

W are R rows of parameters, of which `indices` (K) picks those of segments, one behind the other: LENGTHS (S) of each.
dY has a row for each segment, of which each of its rows gets:

    Sum            dW[k] = dY[s]
    Mean           dW[k] = dY[s] / LENGTHS[s]
    WeightedSum    dW[k] = w[p] dY[s] for place p in its segment: weights say what a place counts, as those of
                   SparseLengthsPositionalWeightedSum do. dw[k] = the sum of dY[s] W[indices[k]] has a number for each k

An index that stands there several times is updated as often, in turn. Of the weighted ones, dw is that of W before all
updates, of ...Approx that of W before the update by k; the other ...Approx do what those without do.

Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    Expression,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    family,
    kernel,
    schema,
)
from tazza.operator.by_letter import by_letter
from tazza.ops.optimizer.adagrad import ADAGRAD, sparse_adagrad
from tazza.ops.optimizer.row_wise import ADAGRAD as ROW_WISE
from tazza.ops.optimizer.row_wise import of_row, require_number_of_rows, row_wise_adagrad, row_wise_formulas
from tazza.ops.optimizer.rows import INDICES, RowFormulas, carried, occurrences, row_formulas
from tazza.ops.optimizer.update import LR, NO_GRADIENT
from tazza.ops.shape.axis import agree, product, require_as_many, require_one_element
from tazza.ops.sparse.reducer import MEAN, SUM, WEIGHTED_SUM, Reducer
from tazza.ops.sparse.segment import check_rows, places_within, starts_of
from tazza.tensor import DataType, TensorSpec

WEIGHTS = blob("weights", FLOAT, role=Role.DATA, doc="of each place in a segment: at least as many as the longest has")
ARGS = (
    *(ADAGRAD.args[name] for name in ("epsilon", "weight_decay")),
    arg("decay", float, 1.0, minimum=1.0, maximum=1.0, doc="of M; there is no other"),
)
SQUARES = {"Sum": (4.0, 4.0), "Mean": (1.0, 1.0), "WeightedSum": (16.0, 4.0)}
"""What the example leaves of M."""


@dataclass(frozen=True, slots=True)
class Fused:
    """What makes a row of a segment, and what updates rows: its kernel, its schema, what the example finds.

    `late`: dw is that of W as updates left it.
    """

    reducer: Reducer
    update: Callable[..., None]
    of: OpSchema
    late: bool = False

    def formulas(self, op: OpView) -> RowFormulas | None:
        """Return what an update makes of a row, by the gradient `dY` of its segment of n rows."""
        found = row_wise_formulas(op) if self.of is ROW_WISE else row_formulas(op, ADAGRAD)
        back = Expression.parse(self.reducer.back)
        gradient = back.substitute({name: Expression.parse(name.replace("dy", "dY")) for name in back.names})
        return None if found is None else found.with_names({"dW": gradient})


def _names(reducer: Reducer) -> list[str]:
    return [
        "dy = dY[s]",
        *(["n = LENGTHS[s]"] if reducer is MEAN else []),
        *(["w = weights[p] for place p in the segment"] if reducer.weighted else []),
    ]


def _example(type: str, row: Fused) -> str:
    alone, weights = row.of is ROW_WISE, "[1.0, 2.0], " if row.reducer.weighted else ""
    squares = [square if alone else [square] for square in SQUARES[row.reducer.name]]
    found = [[[0.5], [0.5]], squares, *([[2.0, 2.0]] if weights else [])]
    return f"""
    >>> W, M = np.ones((2, 1), "f"), np.zeros({2 if alone else (2, 1)}, "f")
    >>> found = run("{type}", W, M, {weights}[1, 0], [[2.0]], [-0.5], [2], epsilon=0.0)
    >>> [one.tolist() for one in found]
    {found}
    """


@family(
    {
        "SparseAdagradFusedWithSparseLengthsSumGradient": Fused(SUM, sparse_adagrad, ADAGRAD),
        "SparseAdagradFusedWithSparseLengthsSumGradientApprox": Fused(SUM, sparse_adagrad, ADAGRAD),
        "SparseAdagradFusedWithSparseLengthsMeanGradient": Fused(MEAN, sparse_adagrad, ADAGRAD),
        "SparseAdagradFusedWithSparseLengthsMeanGradientApprox": Fused(MEAN, sparse_adagrad, ADAGRAD),
        "SparseAdagradFusedWithSparseLengthsWeightedSumGradient": Fused(WEIGHTED_SUM, sparse_adagrad, ADAGRAD),
        "SparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox": Fused(
            WEIGHTED_SUM, sparse_adagrad, ADAGRAD, late=True
        ),
        "RowWiseSparseAdagradFusedWithSparseLengthsSumGradient": Fused(SUM, row_wise_adagrad, ROW_WISE),
        "RowWiseSparseAdagradFusedWithSparseLengthsSumGradientApprox": Fused(SUM, row_wise_adagrad, ROW_WISE),
        "RowWiseSparseAdagradFusedWithSparseLengthsMeanGradient": Fused(MEAN, row_wise_adagrad, ROW_WISE),
        "RowWiseSparseAdagradFusedWithSparseLengthsMeanGradientApprox": Fused(MEAN, row_wise_adagrad, ROW_WISE),
        "RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradient": Fused(
            WEIGHTED_SUM, row_wise_adagrad, ROW_WISE
        ),
        "RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox": Fused(
            WEIGHTED_SUM, row_wise_adagrad, ROW_WISE, late=True
        ),
    }
)
def fused_updates(type: str, row: Fused) -> OpSchema:
    """Updates by the gradient of what segments of rows became."""
    reducer, inputs = row.reducer, row.of.inputs_by_letter
    made = schema(
        type,
        f"""W_next, M_next = what {type.partition("Fused")[0]} makes of the rows of each segment s.

        Their gradient is {reducer.back}, with {", ".join(_names(reducer))}.""",
        inputs=[
            inputs["W"],
            inputs["M"],
            *([WEIGHTS] if reducer.weighted else []),
            INDICES,
            blob("dY", FLOAT, role=Role.DATA, doc="(S, ...): a row of W for each segment"),
            LR,
            blob("LENGTHS", DataType.INT32, "_", role=Role.INDEX, doc="(S): indices of each segment"),
        ],
        outputs=[
            blob("W_next", like="W"),
            blob("M_next", like="M"),
            *([blob("dw", FLOAT)] if reducer.weighted else []),
        ],
        args=ARGS,
        must_in_place={"W_next": "W", "M_next": "M"},
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=_example(type, row),
    )

    @made.infer
    def infer(op: OpView, W: TensorSpec, M: TensorSpec, **others: TensorSpec) -> tuple[TensorSpec, ...]:
        require_one_element(op, "lr", others["lr"].dims)
        if row.of is ROW_WISE:
            require_number_of_rows(op, None if not W.dims else W.dims[0], M=M)
        else:
            require_as_many(op, "W", W.dims, M=M.dims)
            _require_alike(op, W, M)
        _require_segments(op, W, others["dY"], others["LENGTHS"])
        K = None if others["indices"].dims is None else product(others["indices"].dims)
        return (W, M, TensorSpec((K,), DataType.FLOAT))[: len(op.output_letters)]

    @made.cost
    def cost(op: OpView, W: TensorSpec, indices: TensorSpec, dY: TensorSpec, **others: TensorSpec | None) -> Cost:
        del op, others
        moved = indices.size * (W.size // W.shape[0] if W.shape[0] else 0)
        state = moved if row.of is ADAGRAD else indices.size
        return Cost(9 * moved, dY.nbytes + indices.nbytes + 4 * (moved + state), 4 * (moved + state), W.nbytes)

    def compute(op: OpView, given: Mapping[str, Any]) -> None:
        _update(op, row, given)

    kernel(made)(by_letter(made, compute))
    return made


def _require_alike(op: OpView, W: TensorSpec, M: TensorSpec) -> None:
    """Require that M has the rows of W."""
    if W.dims and M.dims is not None:
        op.require(bool(M.dims) and agree(W.dims[0], M.dims[0]), f"M has the extents {M.dims}, W has {W.dims[0]} rows")


def _require_segments(op: OpView, W: TensorSpec, dY: TensorSpec, lengths: TensorSpec) -> None:
    """Require that dY has a row of W for each segment."""
    op.require(W.dims is None or len(W.dims) > 0, "W has rank 0, it must have rows")
    if W.dims is None or dY.dims is None or lengths.dims is None:
        return
    op.require(len(dY.dims) > 0, "dY has rank 0, it has a row for each segment")
    found, wanted = dY.dims[0], lengths.dims[0]
    op.require(agree(found, wanted), f"dY has {found} rows, there are {wanted} LENGTHS", "one for each segment")
    found, wanted = product(dY.dims[1:]), product(W.dims[1:])
    op.require(agree(found, wanted), f"a row of dY has {found} elements, one of W has {wanted}")


def _update(op: OpView, row: Fused, given: Mapping[str, Any]) -> None:
    W: Array = given["W"]
    lengths: Array = given["LENGTHS"]
    at: Array = given["indices"].reshape(-1)
    check_rows(op, at, len(W), "indices")
    starts_of(op, "LENGTHS", lengths, at.size, "indices")
    dy = np.repeat(given["dY"].reshape(lengths.size, *W.shape[1:]), lengths, axis=0)
    dW = dy
    if row.reducer is MEAN:
        dW = dy / of_row(np.repeat(lengths, lengths).astype(np.float32), dy)
    elif row.reducer.weighted:
        places = places_within(lengths)
        dW = dy * of_row(_weights(op, given["weights"], int(lengths.max(initial=0)))[places], dy)
        given["dw"][...] = _products(dy, W[at])
    W_next, M_next = carried(W, given["W_next"]), carried(given["M"], given["M_next"])
    for turn in occurrences(at):
        if row.late:
            given["dw"][turn] = _products(dy[turn], W_next[at[turn]])
        row.update(op, W_next, M_next, at[turn], dW[turn], given["lr"], W_next, M_next)


def _weights(op: OpView, weights: Array, longest: int) -> Array:
    op.require(weights.size >= longest, f"weights has {weights.size} elements, the longest segment {longest}")
    return weights.reshape(-1)


def _products(one: Array, other: Array) -> Array:
    """Return the product of each pair of rows (K, ...)."""
    return (one * other).reshape(len(one), -1).sum(axis=1) if one.size else np.zeros(len(one), np.float32)
