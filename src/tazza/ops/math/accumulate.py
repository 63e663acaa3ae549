"""A sum that goes on from run to run: Accumulate."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Cost, Effects, OpView, arg, blob, forbidden, host_kernel, schema
from tazza.tensor import Blob, Tensor, TensorSpec

ACCUMULATE = schema(
    "Accumulate",
    """Y = X + gamma * what Y held before.

    A Y that holds no float32 tensor of as many elements counts as zeros.""",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    args=[arg("gamma", float, 1.0, doc="what of the former sum is kept")],
    effects=Effects.STATE,
    no_gradient=forbidden("the sum outlives a run"),
    source="Caffe2",
    example="""
    >>> run("Accumulate", [1.0, 2.0])
    array([1., 2.], dtype=float32)
    """,
)


@ACCUMULATE.cost
def accumulate_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(2 * X.size, X.nbytes + Y.nbytes, Y.nbytes)


@host_kernel(ACCUMULATE)
def accumulate(op: OpView, X: Blob, Y: Blob) -> None:
    added, held = X.get(Tensor).plain(), Y.value
    goes_on = isinstance(held, Tensor) and held.allocated and (held.dtype, held.size) == (X.tensor().dtype, added.size)
    before = Y.tensor().plain().reshape(added.shape) if goes_on else np.zeros_like(added)
    if not isinstance(held, Tensor):
        Y.reset()
    with np.errstate(all="ignore"):
        Y.tensor().assign(added + np.float32(op.gamma) * before)
