"""Copies, on one device and between devices, and StopGradient. X and Y have one shape S and any element type.

Kernels for any device copy by the context of the device: it queues the copy where it has a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.operator import (
    ANY,
    Array,
    Call,
    Cost,
    Effects,
    GradientRequest,
    Launch,
    NoGradient,
    Operands,
    OpSchema,
    OpView,
    Role,
    Spec,
    blob,
    ends,
    family,
    kernel,
    launcher,
    not_written,
    schema,
    stops,
)
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec


@dataclass(frozen=True, slots=True)
class CopyLaunch:
    """Copies X to Y, wherever both lie that the context reaches."""

    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Return the copy."""
        X, Y, context = operands["X"], operands["Y"], operands.context
        return lambda: context.copy(X, Y)


def prepare_copy(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Let the context copy."""
    del op, context, inputs, outputs
    return CopyLaunch()


COPY = schema(
    "Copy",
    "Y = X, in memory of its own.",
    inputs=[blob("X", dims="*S")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    inputs_can_cross_devices=True,
    source="Caffe2",
    example="""
    >>> run("Copy", [1, 2])
    array([1, 2], dtype=int32)
    """,
)


COPY.hands_on("X")
COPY.copies()


@COPY.cost
def copy_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(0, X.nbytes, Y.nbytes)


@COPY.gradient
def copy_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("CopyOnDeviceLike", [g.dY, g.X], [g.dX])


launcher(COPY, engine="reference", device=ANY)(prepare_copy)


@kernel(COPY)
def copy(X: Array, Y: Array) -> None:
    np.copyto(Y, X)


COPY_ON_DEVICE_LIKE = schema(
    "CopyOnDeviceLike",
    "Y = X, on the device of `place`, whose value does not matter.",
    inputs=[blob("X", dims="*S"), blob("place", role=Role.SHAPE)],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    inputs_can_cross_devices=True,
    no_gradient=not_written("it is itself what the gradient of Copy emits"),
    source="Caffe2",
    example="""
    >>> run("CopyOnDeviceLike", [1, 2], [0.0])
    array([1, 2], dtype=int32)
    """,
)


COPY_ON_DEVICE_LIKE.copies()


@COPY_ON_DEVICE_LIKE.cost
def copy_on_device_like_cost(op: OpView, X: TensorSpec, place: TensorSpec, Y: TensorSpec) -> Cost:
    del op, place
    return Cost(0, X.nbytes, Y.nbytes)


launcher(COPY_ON_DEVICE_LIKE, engine="reference", device=ANY)(prepare_copy)


@kernel(COPY_ON_DEVICE_LIKE)
def copy_on_device_like(X: Array, Y: Array) -> None:
    np.copyto(Y, X)


def copy_cpu_to_gpu_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("CopyGPUToCPU", [g.dY], [g.dX])


def copy_gpu_to_cpu_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("CopyCPUToGPU", [g.dY], [g.dX])


@dataclass(frozen=True, slots=True)
class Way:
    """Which end of a copy lies on the host, and its gradient, or why it has none."""

    doc: str
    gradient: Callable[[GradientRequest], list[OperatorDef]] | NoGradient
    from_host: bool = False
    to_host: bool = False
    undone_by: str = ""
    """The copy that brings X back; none that is sure to where it is empty."""


@family(
    {
        "CopyFromCPUInput": Way(
            "Y = X, from the host to the device that the operator stands on.",
            not_written("Caffe2 has none either"),
            from_host=True,
        ),
        "EnsureCPUOutput": Way(
            "Y = X, on the host, from wherever X lies.",
            ends("Caffe2 ends the backward pass here"),
            to_host=True,
        ),
        "CopyCPUToGPU": Way(
            "Y = X, from the host to the device that the operator stands on.",
            copy_cpu_to_gpu_gradient,
            from_host=True,
            undone_by="CopyGPUToCPU",
        ),
        "CopyGPUToCPU": Way(
            "Y = X, from the device that the operator stands on to the host.",
            copy_gpu_to_cpu_gradient,
            to_host=True,
            undone_by="CopyCPUToGPU",
        ),
    }
)
def copies_between(type: str, row: Way) -> OpSchema:
    """A copy between the host and the device that it runs on, and its kernel for any device."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", dims="*S", host=row.from_host)],
        outputs=[blob("Y", like="X", host=row.to_host)],
        effects=Effects.PURE,
        inputs_can_cross_devices=True,
        no_gradient=row.gradient if isinstance(row.gradient, NoGradient) else None,
        source="Caffe2",
        example=f"""
        >>> run("{type}", [1, 2])
        array([1, 2], dtype=int32)
        """,
    )
    made.cost(copy_cost)
    made.copies()
    if not isinstance(row.gradient, NoGradient):
        made.gradient(row.gradient)
    if row.undone_by:
        made.undone_by(row.undone_by)
    launcher(made, engine="reference", device=ANY)(prepare_copy)
    kernel(made)(copy)
    return made


STOP_GRADIENT = schema(
    "StopGradient",
    "Y = X; the backward pass does not go through.",
    inputs=[blob("X", dims="*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=stops("that is what the operator is for"),
    source="Caffe2",
    example="""
    >>> run("StopGradient", [1.0, 2.0])
    array([1., 2.], dtype=float32)
    """,
)


STOP_GRADIENT.hands_on("X")


@STOP_GRADIENT.cost
def stop_gradient_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(0, X.nbytes, Y.nbytes)


@kernel(STOP_GRADIENT)
def stop_gradient(X: Array, Y: Array) -> None:
    np.copyto(Y, X)
