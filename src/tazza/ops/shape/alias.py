"""Second names of blobs: Alias, AliasWithName. X and Y have one shape S and any element type."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    arg,
    blob,
    kernel,
    not_written,
    schema,
)
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
ALIAS.names_again()


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


ALIAS_WITH_NAME = schema(
    "AliasWithName",
    "Y = X, whose value is known to others by `name`.",
    inputs=[blob("X", dims="*S")],
    outputs=[blob("Y", like="X")],
    args=[
        arg("name", str, "", doc="what is said of the value; it has no effect"),
        arg("is_backward", bool, False, doc="whether the value belongs to the backward pass; it has no effect"),
    ],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("AliasWithName", [1, 2])
    array([1, 2], dtype=int32)
    """,
)


ALIAS_WITH_NAME.hands_on("X")
ALIAS_WITH_NAME.names_again()
ALIAS_WITH_NAME.cost(alias_cost)
kernel(ALIAS_WITH_NAME)(alias)
