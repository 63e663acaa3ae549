"""Sums of rows of a table, weighted by their place in the segment: SparseLengthsPositionalWeightedSum.

Letters: DATA has V rows of the shape S, of which INDICES (I) picks; M segments of LENGTHS; a weight for each place, P.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    blob,
    kernel,
    not_written,
    schema,
)
from tazza.ops.shape.axis import require_within
from tazza.ops.sparse.segment import BY_LENGTHS, check_rows, places_within, starts_of
from tazza.ops.sparse.segment_reduction import PICKED
from tazza.tensor import TensorSpec

POSITIONAL_WEIGHTED_SUM = schema(
    "SparseLengthsPositionalWeightedSum",
    "Y[m] = the sum of WEIGHTS[p] * DATA[i] for the INDICES i of segment m, p counts these from 0; 0 without any.",
    inputs=[
        blob("DATA", PICKED, "V *S", role=Role.PARAMETER, doc="a table"),
        blob("WEIGHTS", FLOAT, "P", role=Role.PARAMETER, doc="of each place; as many as the longest segment at least"),
        blob("INDICES", INDEX, "I", role=Role.INDEX, doc="which row of DATA, in [0, V)"),
        BY_LENGTHS.blob("I"),
    ],
    outputs=[blob("Y", FLOAT, "M *S")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("SparseLengthsPositionalWeightedSum", [5.0, 6.0, 7.0], [1.0, 10.0], [2, 0, 1], [2, 1])
    array([57.,  6.], dtype=float32)
    """,
)


@POSITIONAL_WEIGHTED_SUM.cost
def positional_weighted_sum_cost(
    op: OpView, DATA: TensorSpec, INDICES: TensorSpec, Y: TensorSpec, **others: object
) -> Cost:
    del op, others
    taken = INDICES.size * (DATA.size // DATA.shape[0] if DATA.shape[0] else 0)
    return Cost(2 * taken, taken * DATA.dtype.itemsize + INDICES.nbytes, Y.nbytes)


@kernel(POSITIONAL_WEIGHTED_SUM)
def positional_weighted_sum(op: OpView, DATA: Array, WEIGHTS: Array, INDICES: Array, LENGTHS: Array, Y: Array) -> None:
    starts = starts_of(op, "LENGTHS", LENGTHS, INDICES.size, "INDICES")
    check_rows(op, INDICES, len(DATA))
    require_within(op, "LENGTHS", LENGTHS, 0, WEIGHTS.size + 1, f"there are {WEIGHTS.size} WEIGHTS")
    weights = WEIGHTS.reshape(-1, *[1] * (DATA.ndim - 1))[places_within(LENGTHS)]
    rows, filled = weights * DATA[INDICES].astype(Y.dtype, copy=False), LENGTHS > 0
    Y[...] = 0
    Y[filled] = np.add.reduceat(rows, starts[:-1][filled], axis=0) if filled.any() else 0
