"""The different elements of a list: Unique. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import INDEX, Array, DynamicOutput, Effects, OpView, Role, blob, ends, kernel, schema
from tazza.tensor import DataType, TensorSpec

UNIQUE = schema(
    "Unique",
    "Y = the different elements of X, the smallest first; X[n] = Y[place[n]].",
    inputs=[blob("X", INDEX, "N", role=Role.DATA)],
    outputs=[blob("Y", INDEX, dynamic=True), blob("place", DataType.INT32, optional=True)],
    effects=Effects.PURE,
    no_gradient=ends("whole numbers have no gradient"),
    source="Caffe2",
    example="""
    >>> run("Unique", [3, 1, 3, 2], outputs=2)
    (array([1, 2, 3], dtype=int32), array([2, 0, 2, 1], dtype=int32))
    """,
)


@UNIQUE.infer
def unique_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, ...]:
    return (TensorSpec((None,), X.dtype), TensorSpec(X.dims, DataType.INT32))[: len(op.output_letters)]


@kernel(UNIQUE)
def unique(X: Array, Y: DynamicOutput, place: Array | None) -> None:
    found, places = np.unique(X, return_inverse=True)
    Y.allocate(found.shape)[...] = found
    if place is not None:
        place[...] = places.reshape(-1)
