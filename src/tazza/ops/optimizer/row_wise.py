"""Updates of rows that share one step length, and how often rows are updated.

W are R rows of parameters; `indices` (K, of any shape) picks those that the K rows of dW belong to, and an index that
stands there several times is updated as often, in turn. Squares are kept as one number a row, the mean over its
elements; g = dW + weight_decay W:

    RowWiseSparseAdagrad    M' = M + mean of g^2;    W' = W + lr / (sqrt(M') + epsilon) g
    RowWiseSparseAdam       as Adam, with V' = beta2 V + (1 - beta2) mean of dW^2
    RowWiseCounter          count' = 1 + count 2^(-(iter - last) / halflife);    last' = iter

They add, so lr is negative.

Source: Caffe2; Naumov et al. 2019, arXiv 1906.00091 for rows of embeddings.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    kernel,
    schema,
    with_arguments,
)
from tazza.ops.optimizer.adagrad import ADAGRAD as DENSE_ADAGRAD
from tazza.ops.optimizer.adagrad import decayed
from tazza.ops.optimizer.adam import ADAM as DENSE_ADAM
from tazza.ops.optimizer.adam import CORRECTION, MEAN, bias_correction, move
from tazza.ops.optimizer.rows import INDICES, RowFormulas, carried, occurrences, require_rows
from tazza.ops.optimizer.update import ITER, LR, NO_GRADIENT
from tazza.ops.shape.axis import agree, product, require_as_many, require_one_element
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import DataType, TensorSpec

Specs = tuple[TensorSpec, ...]

W = blob("W", FLOAT, role=Role.PARAMETER)
DW = blob("dW", FLOAT)

ADAGRAD = schema(
    "RowWiseSparseAdagrad",
    """For each row that `indices` picks, M_next = M + mean of g^2 and W_next = W + lr / (sqrt(M_next) + epsilon) * g.

    g is dW + weight_decay * W.""",
    inputs=[
        W,
        blob("M", FLOAT, role=Role.STATE, doc="of R elements: mean square of each row, summed"),
        INDICES,
        DW,
        LR,
    ],
    outputs=[blob("W_next", like="W"), blob("M_next", like="M")],
    args=[DENSE_ADAGRAD.args[name] for name in ("epsilon", "weight_decay")],
    must_in_place={"W_next": "W", "M_next": "M"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> W, M = np.zeros((2, 2), np.float32), np.zeros(2, np.float32)
    >>> run("RowWiseSparseAdagrad", W, M, [1], [[7.0, 1.0]], [-5.0], epsilon=0.0)
    (array([[ 0.,  0.],
           [-7., -1.]], dtype=float32), array([ 0., 25.], dtype=float32))
    """,
)
ADAM = schema(
    "RowWiseSparseAdam",
    "As SparseAdam, with one V for each row: V_next = beta2 * V + (1 - beta2) * mean of dW^2.",
    inputs=[
        W,
        DENSE_ADAM.inputs_by_letter["M"],
        blob("V", FLOAT, role=Role.STATE, doc="of R elements: estimate of the mean of dW * dW in each row"),
        INDICES,
        DW,
        LR,
        ITER,
    ],
    outputs=DENSE_ADAM.outputs,
    args=DENSE_ADAM.args.values(),
    must_in_place={"W_next": "W", "M_next": "M", "V_next": "V"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> W, M, V = np.zeros((1, 2), "f"), np.zeros((1, 2), "f"), np.zeros(1, "f")
    >>> run("RowWiseSparseAdam", W, M, V, [0], [[7.0, 1.0]], [-5.0], np.array([0]), epsilon=0.0)[0].round(2)
    array([[-7., -1.]], dtype=float32)
    """,
)
COUNTER = schema(
    "RowWiseCounter",
    """For each row that `indices` picks, count_next = 1 + count * 2^(-(iter - last) / counter_halflife).

    last_next = iter. A row whose `last` is later keeps it, and its count does not shrink. Without a halflife
    nothing is counted.""",
    inputs=[
        blob("last", DataType.INT64, role=Role.STATE, doc="of R elements: when each row was updated last"),
        blob("count", DataType.DOUBLE, role=Role.STATE, doc="of R elements: how often each was, older times less"),
        INDICES,
        ITER,
    ],
    outputs=[blob("last_next", like="last"), blob("count_next", like="count")],
    args=[arg("counter_halflife", int, -1, doc="steps after which a time counts half; below 1: nothing is counted")],
    must_in_place={"last_next": "last", "count_next": "count"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("RowWiseCounter", np.array([0, 3]), np.array([8.0, 1.0]), [1], np.array([5]), counter_halflife=2)
    (array([0, 5]), array([8. , 1.5]))
    """,
)


def require_number_of_rows(op: OpView, R: int | None, **states: TensorSpec) -> None:
    """Require that states have one element for each of R rows.

    Raises:
        ShapeError: one has not.
    """
    for letter, spec in states.items():
        if spec.dims is not None:
            found = product(spec.dims)
            op.require(agree(found, R), f"{letter} has {found} elements, there are {R} rows", "one for each row")


def _declare(declared: OpSchema, *of_rows: str, flops: int) -> None:
    """Give an update its shapes, and its cost: so many operations for each element of dW."""

    @declared.infer
    def infer(op: OpView, W: TensorSpec, indices: TensorSpec, dW: TensorSpec, **others: TensorSpec) -> Specs:
        for letter in {"lr", "iter"} & others.keys():
            require_one_element(op, letter, others[letter].dims)
        require_rows(op, W, indices, dW)
        R = None if W.dims is None else W.dims[0]
        require_number_of_rows(op, R, **{letter: others[letter] for letter in of_rows})
        if "V" in others:
            require_as_many(op, "W", W.dims, M=others["M"].dims)
        specs = {"W": W, "dW": dW, **others}
        return tuple(specs[str(op.schema.outputs_by_letter[letter].like)] for letter in op.output_letters)

    @declared.cost
    def cost(op: OpView, W: TensorSpec, indices: TensorSpec, dW: TensorSpec, **others: TensorSpec) -> Cost:
        moments = 1 if "V" in others else 0
        written = (1 + moments + op.has_output("step")) * dW.nbytes
        read = (2 + moments) * dW.nbytes + indices.nbytes
        return Cost(flops * dW.size, read + 4 * indices.size, written + 4 * indices.size, W.nbytes)


_declare(ADAGRAD, "M", flops=6)
_declare(ADAM, "V", flops=13)


@COUNTER.infer
def counter_infer(
    op: OpView, last: TensorSpec, count: TensorSpec, indices: TensorSpec, iter: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    del indices
    require_one_element(op, "iter", iter.dims)
    require_number_of_rows(op, None if last.dims is None else product(last.dims), count=count)
    return last, count


@COUNTER.cost
def counter_cost(op: OpView, indices: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return Cost(5 * indices.size, indices.nbytes + 16 * indices.size, 16 * indices.size, 0)


def _mean_square(rows: Array) -> Array:
    """Return a number for each row."""
    flat = rows.reshape(len(rows), -1)
    return np.square(flat).mean(axis=1, dtype=np.float32) if flat.size else np.zeros(len(rows), np.float32)


def of_row(numbers: Array, rows: Array) -> Array:
    """Return numbers, one for each row, so that they multiply its elements."""
    return numbers.reshape(-1, *(1,) * (rows.ndim - 1))


def row_wise_formulas(op: OpView) -> RowFormulas | None:
    """Return what RowWiseSparseAdagrad makes of a row; None where an argument is NaN."""
    gradient = "dW" if op.weight_decay == 0 else "(dW + weight_decay * W)"
    found = with_arguments(
        op,
        {
            "mean": f"{gradient} * {gradient}",
            "M_next": "M + mean",
            "W_next": f"W + lr / (sqrt(M_next) + epsilon) * {gradient}",
        },
    )
    if not found:
        return None
    return RowFormulas({"W_next": found["W_next"]}, {"M_next": found["M_next"]}, found["mean"])


def row_wise_adam_formulas(op: OpView) -> RowFormulas | None:
    """Return what RowWiseSparseAdam makes of a row; None where an argument is NaN."""
    step = move("V_next")
    texts = {"M_next": MEAN, "W_next": f"W + lr * ({step})", "step": step}
    each = with_arguments(op, {letter: texts[letter] for letter in op.output_letters if letter in texts})
    row = with_arguments(op, {"mean": "square(dW)", "V_next": "beta2 * V + (1 - beta2) * mean"})
    if not each or not row:
        return None
    return RowFormulas(each, {"V_next": row["V_next"]}, row["mean"], with_arguments(op, CORRECTION))


ROW_WISE_FORMULAS = ((ADAGRAD, row_wise_formulas), (ADAM, row_wise_adam_formulas))
"""The updates with one number a row, and what they make of it."""


@kernel(ADAGRAD)
def row_wise_adagrad(
    op: OpView, W: Array, M: Array, indices: Array, dW: Array, lr: Array, W_next: Array, M_next: Array
) -> None:
    at = indices.reshape(-1)
    check_rows(op, at, len(W), "indices")
    rows, weights, sums = dW.reshape(at.size, *W.shape[1:]), carried(W, W_next), carried(M, M_next).reshape(-1)
    for places in occurrences(at):
        picked = at[places]
        own = decayed(op, rows[places], weights[picked])
        sums[picked] += _mean_square(own)
        rate = lr.reshape(()) / (np.sqrt(sums[picked]) + np.float32(op.epsilon))
        weights[picked] += of_row(rate, own) * own


@kernel(ADAM)
def row_wise_adam(
    op: OpView,
    W: Array,
    M: Array,
    V: Array,
    indices: Array,
    dW: Array,
    lr: Array,
    iter: Array,
    W_next: Array,
    M_next: Array,
    V_next: Array,
    step: Array | None,
) -> None:
    at, correction = indices.reshape(-1), bias_correction(op, iter)
    check_rows(op, at, len(W), "indices")
    rows, weights, means = dW.reshape(at.size, *W.shape[1:]), carried(W, W_next), carried(M, M_next).reshape(W.shape)
    squares, moves = carried(V, V_next).reshape(-1), np.empty((at.size, *W.shape[1:]), np.float32)
    for places in occurrences(at):
        picked = at[places]
        means[picked] = op.beta1 * means[picked] + (1 - op.beta1) * rows[places]
        squares[picked] = op.beta2 * squares[picked] + (1 - op.beta2) * _mean_square(rows[places])
        moves[places] = correction * means[picked] / (of_row(np.sqrt(squares[picked]), rows) + op.epsilon)
        weights[picked] += lr.reshape(()) * moves[places]
    if step is not None:
        step[...] = moves.reshape(dW.shape)


@kernel(COUNTER)
def row_wise_counter(
    op: OpView, last: Array, count: Array, indices: Array, iter: Array, last_next: Array, count_next: Array
) -> None:
    at, now = indices.reshape(-1), iter.reshape(())
    counts, times = carried(count, count_next).reshape(-1), carried(last, last_next).reshape(-1)
    if op.counter_halflife > 0:
        check_rows(op, at, counts.size, "indices")
        for places in occurrences(at):
            picked = at[places]
            passed = np.maximum(now - times[picked], 0)
            counts[picked] = 1 + counts[picked] * np.exp2(-passed / op.counter_halflife)
            times[picked] = np.maximum(times[picked], now)
