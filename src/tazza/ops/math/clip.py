"""Bounds on values: Clip. All blobs have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    HALVES,
    Array,
    Effects,
    GradientRequest,
    OpView,
    arg,
    blob,
    ends,
    formula,
    kernel,
    schema,
)
from tazza.ops.math.elementwise import formula_cost
from tazza.proto import OperatorDef

LARGEST = float(np.finfo(np.float32).max)
BOUNDS = (
    arg("min", float, -LARGEST, doc="smallest value of Y"),
    arg("max", float, LARGEST, doc="largest value of Y, also where min is larger"),
)

CLIP = schema(
    "Clip",
    """Y = min(max(X, min), max).

    Without bounds, infinities become the largest finite numbers. NaN stays.""",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    args=BOUNDS,
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Clip", [-1.0, 0.5, 9.0], min=0.0, max=2.0)
    array([0. , 0.5, 2. ], dtype=float32)
    """,
)
formula(CLIP, Y="min(max(X, min), max)")
CLIP.cost(formula_cost)


@CLIP.gradient
def clip_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ClipGradient", [g.Y, g.dY], [g.dX])


@kernel(CLIP)
def clip(op: OpView, X: Array, Y: Array) -> None:
    np.minimum(np.maximum(X, op.min), op.max, out=Y)


CLIP_GRADIENT = schema(
    "ClipGradient",
    "dX = dY where min < Y < max, else 0.",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "#S")],
    outputs=[blob("dX", like="Y")],
    args=BOUNDS,
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("ClipGradient", [0.0, 0.5, 2.0], [3.0, 4.0, 5.0], min=0.0, max=2.0)
    array([0., 4., 0.], dtype=float32)
    """,
)
formula(CLIP_GRADIENT, dX="where(Y > min, where(Y < max, dY, 0), 0)")
CLIP_GRADIENT.cost(formula_cost)


@kernel(CLIP_GRADIENT)
def clip_gradient_kernel(op: OpView, Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, (Y > op.min) & (Y < op.max), out=dX)
