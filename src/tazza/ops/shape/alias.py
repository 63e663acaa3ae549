"""Second names of blobs: Alias. X and Y have one shape S and any element type."""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Cost, Effects, GradientRequest, OpView, blob, kernel, schema
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ALIAS = schema(
    "Alias",
    """Y = X.

    In Caffe2 both share their memory, so that writing one in place changes the other; here Y keeps its value.""",
    inputs=[blob("X", dims="*S")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Alias", [1, 2])
    array([1, 2], dtype=int32)
    """,
)


ALIAS.hands_on("X")


@ALIAS.cost
def alias_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(0, X.nbytes, Y.nbytes)


@ALIAS.gradient
def alias_gradient(g: GradientRequest) -> list[OperatorDef]:
    g.pass_to(0, g.dY)
    return []


@kernel(ALIAS)
def alias(X: Array, Y: Array) -> None:
    np.copyto(Y, X)
