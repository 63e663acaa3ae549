"""Rows whose label is above 0: SampleAs of Detectron's module, which takes the rows of objects out of a batch.

Letters: N rows, of which K are taken; S is the shape of a row.

Source: He, Gkioxari, Dollar, Girshick 2017, Mask R-CNN; Caffe2, modules/detectron.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    GradientRequest,
    OpView,
    Role,
    blob,
    ends,
    kernel,
    schema,
    streamed,
)
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

LABELS = blob("labels", DataType.INT32, "N *_", role=Role.INDEX, doc="the first N elements are read")

SAMPLE_AS = schema(
    "SampleAs",
    "Y = the rows of X whose label is above 0.",
    inputs=[blob("X", FLOAT, "N *S"), LABELS],
    outputs=[blob("Y", "X", dynamic=True, doc="(K, *S)")],
    effects=Effects.PURE,
    source="Caffe2, modules/detectron",
    example="""
    >>> run("SampleAs", [5.0, 6.0, 7.0], [3, -1, 1])
    array([5., 7.], dtype=float32)
    """,
)
SAMPLE_AS_GRADIENT = schema(
    "SampleAsGradient",
    "dX = the rows of dY one after the other where a label is above 0, else 0.",
    inputs=[
        blob("X", FLOAT, "N *S", role=Role.SHAPE, doc="its shape counts"),
        LABELS,
        blob("dY", "X", "K *S", role=Role.DATA, doc="those that are left over are not read"),
    ],
    outputs=[blob("dX", like="X")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SampleAsGradient", [5.0, 6.0, 7.0], [3, -1, 1], [1.0, 2.0])
    array([1., 0., 2.], dtype=float32)
    """,
)


@SAMPLE_AS.infer
def sample_as_infer(op: OpView, X: TensorSpec, labels: TensorSpec) -> TensorSpec:
    del op, labels
    return X.some_rows()


@SAMPLE_AS.cost
def sample_as_cost(op: OpView, X: TensorSpec, labels: TensorSpec, Y: TensorSpec) -> Cost:
    del op, X
    return streamed((Y, labels), (Y,))


@SAMPLE_AS.gradient
def sample_as_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SampleAsGradient", [g.like("X"), g.labels, g.dY], [g.dX])


@kernel(SAMPLE_AS)
def sample_as(X: Array, labels: Array, Y: DynamicOutput) -> None:
    rows = _rows(labels, len(X))
    np.take(X, rows, axis=0, out=Y.allocate((rows.size, *X.shape[1:])))


@SAMPLE_AS_GRADIENT.cost
def sample_as_gradient_cost(op: OpView, X: TensorSpec, labels: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op, X
    return streamed((labels, dY), (dX,))


@kernel(SAMPLE_AS_GRADIENT)
def sample_as_gradient_kernel(op: OpView, labels: Array, dY: Array, dX: Array) -> None:
    rows = _rows(labels, len(dX))
    if rows.size > len(dY):
        raise op.error(NumericError, f"{rows.size} labels are above 0, and dY has {len(dY)} rows")
    dX[...] = 0
    dX[rows] = dY[: rows.size]


def _rows(labels: Array, N: int) -> Array:
    return np.flatnonzero(labels.reshape(-1)[:N] > 0)
