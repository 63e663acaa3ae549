"""One row that is put at many places of a matrix: CopyRowsToTensor, and its gradient.

Blobs:  X (R, D), indices (K), row (D) -> Y (R, D), in place of X.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Cost, Effects, GradientRequest, OpView, Role, blob, kernel, not_written, schema
from tazza.ops.sparse.segment import check_rows
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

COPIED = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.INT32, DataType.INT64})

COPY_ROWS_TO_TENSOR = schema(
    "CopyRowsToTensor",
    "Y[indices[k]] = row for each k, in place of X; other rows stay.",
    inputs=[
        blob("X", COPIED, "R D", role=Role.PARAMETER),
        blob("indices", DataType.INT64, "K", role=Role.INDEX, doc="each in [0, R)"),
        blob("row", "X", "D", role=Role.DATA),
    ],
    outputs=[blob("Y", like="X")],
    must_in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("CopyRowsToTensor", np.zeros((3, 2), np.int32), np.array([2, 0]), [7, 8])
    array([[7, 8],
           [0, 0],
           [7, 8]], dtype=int32)
    """,
)
COPY_ROWS_TO_TENSOR_GRADIENT = schema(
    "CopyRowsToTensorGradient",
    """dX = dY.

    The rows that were overwritten get their gradient too, and `row` gets none: so Caffe2 defines it.""",
    inputs=[blob("dY", COPIED, "R D")],
    outputs=[blob("dX", like="dY")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("CopyRowsToTensorGradient", [[1, 2], [3, 4]])
    array([[1, 2],
           [3, 4]], dtype=int32)
    """,
)
COPY_ROWS_TO_TENSOR_GRADIENT.hands_on("dY")


@COPY_ROWS_TO_TENSOR.cost
def copy_rows_to_tensor_cost(op: OpView, X: TensorSpec, indices: TensorSpec, row: TensorSpec, Y: TensorSpec) -> Cost:
    del op, X, Y
    return Cost(0, indices.nbytes + row.nbytes, indices.size * row.nbytes)


@COPY_ROWS_TO_TENSOR.gradient
def copy_rows_to_tensor_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("CopyRowsToTensorGradient", [g.dY], [g.dX])


@kernel(COPY_ROWS_TO_TENSOR)
def copy_rows_to_tensor(op: OpView, X: Array, indices: Array, row: Array, Y: Array) -> None:
    check_rows(op, indices, len(X), "indices")
    Y[...] = X
    Y[indices] = row


@COPY_ROWS_TO_TENSOR_GRADIENT.cost
def copy_rows_to_tensor_gradient_cost(op: OpView, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return Cost(0, dY.nbytes, dX.nbytes)


@kernel(COPY_ROWS_TO_TENSOR_GRADIENT)
def copy_rows_to_tensor_gradient_kernel(dY: Array, dX: Array) -> None:
    np.copyto(dX, dY)
