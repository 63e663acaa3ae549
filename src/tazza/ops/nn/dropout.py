"""Dropout. X, Y, mask, dY and dX all have one shape S, r is `ratio`; what is kept is scaled by 1 / (1 - r)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from tazza.device import Generator
from tazza.errors import ArgumentError, SchemaError
from tazza.operator import (
    FLOAT,
    HALVES,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Spec,
    arg,
    blob,
    ends,
    formula,
    kernel,
    schema,
)
from tazza.ops.shape.axis import agree, product
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

RATIO = arg("ratio", float, 0.5, minimum=0, doc="r: probability of an element to become 0; below 1")
MASK = frozenset({DataType.BOOL})

DROPOUT = schema(
    "Dropout",
    """Y = X * mask / (1 - ratio), where each element of mask is True with probability 1 - ratio.

    With `is_test` Y = X, and a mask that is asked for is True everywhere. A seeded operator draws the mask that Caffe2
    draws.""",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X"), blob("mask", MASK, "*S", optional=True)],
    args=[RATIO, arg("is_test", int, doc="0: train, with both outputs; else Y = X")],
    in_place={"Y": "X"},
    effects=Effects.RANDOM,
    source="Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014, section 10, scaled while training",
    example="""
    >>> Y, mask = run("Dropout", np.ones(100, "f"), ratio=0.75, is_test=0, outputs=2)
    >>> bool(np.array_equal(Y, 4 * mask))
    True
    """,
)


DROPOUT.hands_on("X", when=lambda op: bool(op.is_test))
DROPOUT.trains_unless("is_test", "mask")


@DROPOUT.validate
def dropout_validate(op: OpView) -> None:
    _check_ratio(op)
    if not op.is_test and not op.has_output("mask"):
        raise op.error(SchemaError, "1 output with is_test = 0, it takes 2", "add a name for the mask")


@DROPOUT.cost
def dropout_cost(op: OpView, X: TensorSpec, Y: TensorSpec, mask: TensorSpec | None) -> Cost:
    return Cost(0 if op.is_test else 2 * Y.size, X.nbytes, Y.nbytes + (0 if mask is None else mask.nbytes))


@DROPOUT.gradient
def dropout_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("DropoutGrad", [g.dY] if g.op.is_test else [g.dY, g.mask], [g.dX])


@kernel(DROPOUT)
def dropout(op: OpView, random: Generator, X: Array, Y: Array, mask: Array | None) -> None:
    keep = np.ones((), np.bool_) if op.is_test else random.bernoulli(X.size, 1 - op.ratio).reshape(X.shape)
    np.multiply(X, keep * _scale(op), out=Y)
    if mask is not None:
        mask[...] = keep


DROPOUT_GRAD = schema(
    "DropoutGrad",
    "dX = dY * mask / (1 - ratio); with is_test dX = dY.",
    inputs=[
        blob("dY", FLOAT, elsewhere=HALVES),
        blob("mask", MASK, optional=True, doc="as many elements as dY, of any shape"),
    ],
    outputs=[blob("dX", like="dY")],
    args=[RATIO, arg("is_test", int, 0, doc="the forward operator changed nothing")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("DropoutGrad", [1.0, 2.0], np.array([True, False]), ratio=0.75)
    array([4., 0.], dtype=float32)
    """,
)


def _dropout_grad_texts(op: OpView) -> dict[str, str]:
    return {"dX": "dY" if op.is_test else "dY * mask / (1 - ratio)"}


def _dropout_grad_align(op: OpView, specs: Mapping[str, Spec]) -> dict[str, tuple[int, ...]]:
    del op
    dims = cast("TensorSpec", specs["dY"]).shape  # the mask may have another shape, with as many elements
    return {letter: tuple(dims) for letter in specs}


formula(DROPOUT_GRAD, _dropout_grad_texts, align=_dropout_grad_align)


@DROPOUT_GRAD.validate
def dropout_grad_validate(op: OpView) -> None:
    _check_ratio(op)
    if not op.is_test and not op.has_input("mask"):
        raise op.error(SchemaError, "1 input with is_test = 0, it takes 2", "add the mask")


@DROPOUT_GRAD.infer
def dropout_grad_infer(op: OpView, dY: TensorSpec, mask: TensorSpec | None) -> TensorSpec:
    if mask is not None and mask.dims is not None and dY.dims is not None:
        count, wanted = product(mask.dims), product(dY.dims)
        op.require(agree(count, wanted), f"mask has {count} elements, dY has {wanted}", "give the mask of that Dropout")
    return TensorSpec(dY.dims, dY.dtype)


@DROPOUT_GRAD.cost
def dropout_grad_cost(op: OpView, dY: TensorSpec, mask: TensorSpec | None, dX: TensorSpec) -> Cost:
    read = dY.nbytes + (0 if mask is None or op.is_test else mask.nbytes)
    return Cost(0 if op.is_test else 2 * dX.size, read, dX.nbytes)


@kernel(DROPOUT_GRAD)
def dropout_grad(op: OpView, dY: Array, mask: Array | None, dX: Array) -> None:
    if op.is_test or mask is None:
        np.copyto(dX, dY)
    else:
        np.multiply(dY, mask.reshape(dY.shape) * _scale(op), out=dX)


def _check_ratio(op: OpView) -> None:
    if not op.ratio < 1:
        raise op.error(ArgumentError, f"argument 'ratio' = {op.ratio} is not below 1", "1 would drop everything")


def _scale(op: OpView) -> np.float32:
    """Return 1 / (1 - ratio) as Caffe2 rounds it."""
    return np.float32(1) if op.is_test else np.float32(1) / (np.float32(1) - np.float32(op.ratio))
