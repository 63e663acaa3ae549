"""The transformation of Box and Cox: BatchBoxCox. X and Y are (N, ...) with D elements in each row."""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Cost, Effects, OpView, Role, arg, blob, kernel, not_written, schema, streamed
from tazza.ops.math.mean import REAL
from tazza.ops.shape.axis import agree, product
from tazza.tensor import TensorSpec

LEAST = 1e-6
"""What X + lambda2 is at least."""

BATCH_BOX_COX = schema(
    "BatchBoxCox",
    """Y = (z^lambda1 - 1) / lambda1, or log z where lambda1 is 0, with z = X + lambda2, at least 1e-6.

    Each of D columns has its own lambda1 and lambda2.""",
    inputs=[
        blob("X", REAL, doc="(N, ...), D elements in each row"),
        blob("lambda1", "X", role=Role.PARAMETER, doc="D elements of any shape"),
        blob("lambda2", "X", role=Role.PARAMETER, doc="D elements of any shape"),
    ],
    outputs=[blob("Y", like="X")],
    args=[arg("min_block_size", int, 256, doc="no effect: rows that Caffe2 handles at a time")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none yet"),
    source="Box, Cox 1964",
    example="""
    >>> run("BatchBoxCox", [[3.0, 1.0]], [2.0, 0.0], [0.0, 0.0])
    array([[4., 0.]], dtype=float32)
    """,
)


@BATCH_BOX_COX.infer
def batch_box_cox_infer(op: OpView, X: TensorSpec, lambda1: TensorSpec, lambda2: TensorSpec) -> TensorSpec:
    if X.dims is not None:
        op.require(len(X.dims) > 0, "X has rank 0, it must have rows")
        D = product(X.dims[1:])
        for name, one in (("lambda1", lambda1), ("lambda2", lambda2)):
            given = None if one.dims is None else product(one.dims)
            op.require(agree(D, given), f"X has {D} elements in a row, {name} has {given}", "one for each")
    return X


@BATCH_BOX_COX.cost
def batch_box_cox_cost(op: OpView, X: TensorSpec, lambda1: TensorSpec, lambda2: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, lambda1, lambda2), (Y,), flops=12 * Y.size)


@kernel(BATCH_BOX_COX)
def batch_box_cox(X: Array, lambda1: Array, lambda2: Array, Y: Array) -> None:
    powers, shifts = lambda1.reshape(X.shape[1:]), lambda2.reshape(X.shape[1:])
    z = np.maximum(X + shifts, X.dtype.type(LEAST))
    safe = np.where(powers == 0, 1, powers).astype(X.dtype)
    Y[...] = np.where(powers == 0, np.log(z), (np.power(z, safe) - 1) / safe)
