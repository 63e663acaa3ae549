"""What is left of a division: Mod. X and Y have one shape S. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import INDEX, REQUIRED, Array, Effects, OpView, arg, blob, kernel, not_written, schema

MOD = schema(
    "Mod",
    "Y = what is left where X is divided by `divisor`: of the sign of X, or of that of the divisor.",
    inputs=[blob("X", INDEX, "*S")],
    outputs=[blob("Y", like="X")],
    args=[
        arg("divisor", int, REQUIRED, doc="not 0"),
        arg("sign_follow_divisor", bool, False, doc="whether Y has the sign of the divisor"),
    ],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("Mod", [7, -7], divisor=3), run("Mod", [7, -7], divisor=3, sign_follow_divisor=1)
    (array([ 1, -1], dtype=int32), array([1, 2], dtype=int32))
    """,
)


@MOD.validate
def mod_validate(op: OpView) -> None:
    if op.divisor == 0:
        raise op.error(ArgumentError, "divisor = 0, nothing can be divided by it")


@kernel(MOD)
def mod(op: OpView, X: Array, Y: Array) -> None:
    left = np.mod if op.sign_follow_divisor else np.fmod
    Y[...] = left(X.astype(np.int64), op.divisor)
