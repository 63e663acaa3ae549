"""Scales from norms: Lars, a rate for each parameter; ClipTensorByScaling, a gradient that may be so long at most."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.errors import SchemaError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    OpView,
    Role,
    RowProgram,
    Spec,
    Total,
    arg,
    blob,
    formula,
    kernel,
    row_program,
    schema,
)
from tazza.ops.optimizer.update import NO_GRADIENT
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.tensor import TensorSpec

LARS = schema(
    "Lars",
    """rate = trust / (|dW| / |W| + decay + offset), at most `most`, at least `lr_min`; before that 1 where W is 0.

    Norms are roots of sums of squares.""",
    inputs=[
        blob("W", FLOAT, role=Role.PARAMETER),
        blob("dW", FLOAT),
        blob("decay", FLOAT, role=Role.PARAMETER, doc="of one element: weight decay"),
        blob("trust", FLOAT, role=Role.PARAMETER, doc="of one element"),
        blob("most", FLOAT, role=Role.PARAMETER, doc="of one element: largest rate"),
    ],
    outputs=[blob("rate", FLOAT, "1")],
    args=[
        arg("offset", float, 0.5, doc="added to what divides"),
        arg("lr_min", float, 0.02, doc="least rate, which wins where it is above the largest one"),
    ],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="You, Gitman, Ginsburg 2017, arXiv 1708.03888",
    example="""
    >>> run("Lars", [3.0, 4.0], [6.0, 8.0], [0.5], [6.0], [10.0])
    array([2.], dtype=float32)
    """,
)


@LARS.infer
def lars_infer(
    op: OpView, W: TensorSpec, dW: TensorSpec, decay: TensorSpec, trust: TensorSpec, most: TensorSpec
) -> TensorSpec:
    for letter, spec in (("decay", decay), ("trust", trust), ("most", most)):
        require_one_element(op, letter, spec.dims)
    require_as_many(op, "W", W.dims, dW=dW.dims)
    return TensorSpec((1,), W.dtype)


@LARS.cost
def lars_cost(op: OpView, W: TensorSpec, dW: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return Cost(4 * W.size, W.nbytes + dW.nbytes, 4)


@kernel(LARS)
def lars(op: OpView, W: Array, dW: Array, decay: Array, trust: Array, most: Array, rate: Array) -> None:
    own, slope = (np.sqrt(np.square(x).sum(dtype=np.float32)) for x in (W, dW))
    found = np.float32(1)
    if own > 0:
        with np.errstate(divide="ignore"):
            found = trust.reshape(()) / (slope / own + decay.reshape(()) + np.float32(op.offset))
    rate[...] = max(min(found, most.reshape(())), np.float32(op.lr_min))


def _rate(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    row = {
        "found": "where(own > 0, trust / (sqrt(slope) / sqrt(own) + decay + offset), 1)",
        "rate": "max(min(found, most), lr_min)",
    }
    totals = {"own": Total("sum", "W * W"), "slope": Total("sum", "dW * dW")}
    return RowProgram(Cut(1, specs["W"].size), totals, row, lies=dict.fromkeys(("decay", "trust", "most"), "one"))


row_program(LARS, _rate)


CLIP_TENSOR_BY_SCALING = schema(
    "ClipTensorByScaling",
    """Y = threshold / norm * X where norm > threshold, else X; `factor` multiplies the threshold if it is given.

    The norm is whatever was computed before: of X, or of all gradients.""",
    inputs=[
        blob("X", FLOAT),
        blob("norm", FLOAT, role=Role.PARAMETER, doc="of one element"),
        blob("factor", FLOAT, optional=True, role=Role.PARAMETER, doc="of one element"),
    ],
    outputs=[blob("Y", like="X")],
    args=[arg("threshold", float, doc="above 0")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Pascanu, Mikolov, Bengio 2013, arXiv 1211.5063, algorithm 1",
    example="""
    >>> run("ClipTensorByScaling", [3.0, 4.0], [5.0], threshold=2.5)
    array([1.5, 2. ], dtype=float32)
    """,
)


@CLIP_TENSOR_BY_SCALING.validate
def clip_tensor_by_scaling_validate(op: OpView) -> None:
    if not op.threshold > 0:
        raise op.error(SchemaError, f"threshold is {op.threshold:g}, it must be above 0")


@CLIP_TENSOR_BY_SCALING.infer
def clip_tensor_by_scaling_infer(op: OpView, X: TensorSpec, norm: TensorSpec, factor: TensorSpec | None) -> TensorSpec:
    require_one_element(op, "norm", norm.dims)
    if factor is not None:
        require_one_element(op, "factor", factor.dims)
    return TensorSpec(X.dims, X.dtype)


@CLIP_TENSOR_BY_SCALING.cost
def clip_tensor_by_scaling_cost(op: OpView, X: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return Cost(X.size, X.nbytes, X.nbytes)


@kernel(CLIP_TENSOR_BY_SCALING)
def clip_tensor_by_scaling(op: OpView, X: Array, norm: Array, factor: Array | None, Y: Array) -> None:
    threshold = np.float32(op.threshold)
    if factor is not None:
        threshold *= factor.reshape(())
    found = norm.reshape(())
    np.multiply(X, threshold / found if found > threshold else np.float32(1), out=Y)


def _one_number(op: OpView, specs: Mapping[str, Spec]) -> dict[str, tuple[int, ...]]:
    del op
    return dict.fromkeys({"norm", "factor"} & specs.keys(), ())


def _scaled(op: OpView) -> dict[str, str]:
    most = "threshold * factor" if op.has_input("factor") else "threshold"
    return {"Y": f"X * where(norm > {most}, {most} / norm, 1)"}


formula(CLIP_TENSOR_BY_SCALING, _scaled, align=_one_number)
