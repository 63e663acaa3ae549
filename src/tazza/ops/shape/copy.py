"""Copies: Copy, CopyOnDeviceLike, StopGradient. X and Y have one shape S and any element type."""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Cost, Effects, GradientRequest, OpView, blob, ends, kernel, not_written, schema
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

COPY = schema(
    "Copy",
    "Y = X, in memory of its own.",
    inputs=[blob("X", dims="*S")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Copy", [1, 2])
    array([1, 2], dtype=int32)
    """,
)


@COPY.cost
def copy_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(0, X.nbytes, Y.nbytes)


@COPY.gradient
def copy_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("CopyOnDeviceLike", [g.dY, g.X], [g.dX])


@kernel(COPY)
def copy(X: Array, Y: Array) -> None:
    np.copyto(Y, X)


COPY_ON_DEVICE_LIKE = schema(
    "CopyOnDeviceLike",
    "Y = X, on the device of `place`, whose value does not matter.",
    inputs=[blob("X", dims="*S"), blob("place")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    no_gradient=not_written("it is itself what the gradient of Copy emits"),
    source="Caffe2",
    example="""
    >>> run("CopyOnDeviceLike", [1, 2], [0.0])
    array([1, 2], dtype=int32)
    """,
)


@COPY_ON_DEVICE_LIKE.cost
def copy_on_device_like_cost(op: OpView, X: TensorSpec, place: TensorSpec, Y: TensorSpec) -> Cost:
    del op, place
    return Cost(0, X.nbytes, Y.nbytes)


@kernel(COPY_ON_DEVICE_LIKE)
def copy_on_device_like(X: Array, Y: Array) -> None:
    np.copyto(Y, X)


STOP_GRADIENT = schema(
    "StopGradient",
    "Y = X; the backward pass does not go through.",
    inputs=[blob("X", dims="*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=ends("that is what the operator is for", on_purpose=True),
    source="Caffe2",
    example="""
    >>> run("StopGradient", [1.0, 2.0])
    array([1., 2.], dtype=float32)
    """,
)


@STOP_GRADIENT.cost
def stop_gradient_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(0, X.nbytes, Y.nbytes)


@kernel(STOP_GRADIENT)
def stop_gradient(X: Array, Y: Array) -> None:
    np.copyto(Y, X)
