"""Numbers of combinations of categories: NGramFromCategorical. Source: Caffe2."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import FLOAT, Array, Cost, Effects, OpView, arg, blob, ends, kernel, schema
from tazza.ops.shape.cast import whole
from tazza.tensor import DataType, TensorSpec

N_GRAM_FROM_CATEGORICAL = schema(
    "NGramFromCategorical",
    """Y[n] = the number of the combination that row n of X has in the columns `col_ids`.

    Column k has categorical_limits[k] categories, which are told by their whole numbers in `vals`, one column behind
    the other. A number that is not among them counts as the first one. The first column changes fastest.""",
    inputs=[blob("X", FLOAT, "N *S", doc="a row is whatever stands behind the first axis, as one vector")],
    outputs=[blob("Y", DataType.INT64, "N")],
    args=[
        arg("col_ids", list[int], [], doc="columns of X, at least one"),
        arg("categorical_limits", list[int], [], doc="how many categories each of them has"),
        arg("vals", list[int], [], doc="the categories; of equal ones the last counts"),
    ],
    effects=Effects.PURE,
    no_gradient=ends("whole numbers have no gradient"),
    source="Caffe2",
    example="""
    >>> columns = {"col_ids": [0, 2], "categorical_limits": [2, 3], "vals": [1, 4, 3, 7, 9]}
    >>> run("NGramFromCategorical", [[1.0, 2.0, 3.0], [4.0, 6.0, 9.0], [1.5, 2.0, 7.0]], **columns)
    array([0, 5, 2])
    """,
)


@N_GRAM_FROM_CATEGORICAL.validate
def n_gram_from_categorical_validate(op: OpView) -> None:
    ids, limits, count = op.col_ids, op.categorical_limits, sum(op.categorical_limits)
    for holds, relation in (
        (len(ids) > 0, "col_ids is empty, there is at least one column"),
        (len(ids) == len(limits), f"{len(limits)} categorical_limits for {len(ids)} col_ids"),
        (min(ids, default=0) >= 0, f"col_ids = {ids}, columns are counted from 0"),
        (min(limits, default=1) > 0, f"categorical_limits = {limits}, a column has at least one category"),
        (count == len(op.vals), f"{len(op.vals)} vals, categorical_limits = {limits} add up to {count}"),
        (prod(limits) < 2**63, "categorical_limits have more combinations than a number of 63 bits can tell"),
    ):
        if not holds:
            raise op.error(ArgumentError, relation)


@N_GRAM_FROM_CATEGORICAL.infer
def n_gram_from_categorical_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    last: int = max(op.col_ids)
    row = () if X.dims is None else X.dims[1:]
    if X.dims is not None and None not in row:
        width = prod(one for one in row if one is not None)
        op.require(last < width, f"col_ids names column {last}, rows of X have {width}")
    return TensorSpec(None if X.dims is None else X.dims[:1], DataType.INT64)


@N_GRAM_FROM_CATEGORICAL.cost
def n_gram_from_categorical_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del X
    steps = sum(limit.bit_length() + 2 for limit in op.categorical_limits)
    return Cost(Y.size * steps, 4 * Y.size * len(op.col_ids), Y.nbytes)


@kernel(N_GRAM_FROM_CATEGORICAL)
def n_gram_from_categorical(op: OpView, X: Array, Y: Array) -> None:
    rows = X.reshape(len(X), prod(X.shape[1:]))
    limits: list[int] = op.categorical_limits
    factors = accumulate(limits, mul, initial=1)
    Y[...] = 0
    for column, end, limit, factor in zip(op.col_ids, accumulate(limits), limits, factors, strict=False):
        Y[...] += factor * _number_of(rows[:, column], np.array(op.vals[end - limit : end], np.int64))


def _number_of(x: Array, categories: Array) -> Array:
    """Return at which place each x stands among the categories, cut to whole numbers; 0 where it does not."""
    order = np.argsort(categories, kind="stable")
    cut = whole(x, np.dtype(np.int32))
    at = np.searchsorted(categories, cut, side="right", sorter=order) - 1
    found = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (categories[found] == cut), found, 0)
