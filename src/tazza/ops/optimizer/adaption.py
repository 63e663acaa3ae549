"""A learning rate that follows the gradients: LearningRateAdaption.

g is the gradient of a step, e the effective one, by which parameters moved for each unit of the rate:

    lr' = lr - lr_alpha g.e                       or, normalized: lr' = lr (1 - lr_alpha g.e / (|g| |e|))

Source: Baydin et al. 2017, arXiv 1703.04782; Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
    blob,
    kernel,
    row_program,
    schema,
    stops,
    streamed,
)
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.tensor import TensorSpec

NORM_MIN = np.float32(1e-12)
"""A shorter vector counts as this long."""

ADAPTION = schema(
    "LearningRateAdaption",
    "lr_next = lr * (1 - lr_alpha * cos(g, e)); without `normalized_lr_adaption`, lr - lr_alpha * g.e.",
    inputs=[
        blob("lr", FLOAT, role=Role.PARAMETER, doc="of one element"),
        blob("g", FLOAT, role=Role.DATA, doc="gradient"),
        blob("e", FLOAT, role=Role.DATA, doc="effective gradient, of as many elements"),
    ],
    outputs=[blob("lr_next", like="lr")],
    args=[
        arg("lr_alpha", float, 0.01, doc="how fast the rate changes"),
        arg("normalized_lr_adaption", bool, True, doc="by the cosine of the angle between g and e"),
    ],
    in_place={"lr_next": "lr"},
    effects=Effects.PURE,
    no_gradient=stops("a rate is no function of the net"),
    source="Baydin et al. 2017, arXiv 1703.04782",
    example="""
    >>> run("LearningRateAdaption", [0.5], [1.0, 2.0], [2.0, 4.0], lr_alpha=0.5)
    array([0.25], dtype=float32)
    """,
)


@ADAPTION.infer
def adaption_infer(op: OpView, lr: TensorSpec, g: TensorSpec, e: TensorSpec) -> TensorSpec:
    require_one_element(op, "lr", lr.dims)
    require_as_many(op, "g", g.dims, e=e.dims)
    return lr


@ADAPTION.cost
def adaption_cost(op: OpView, lr: TensorSpec, g: TensorSpec, e: TensorSpec, lr_next: TensorSpec) -> Cost:
    return streamed((lr, g, e), (lr_next,), flops=(6 if op.normalized_lr_adaption else 2) * g.size)


@kernel(ADAPTION)
def adaption(op: OpView, lr: Array, g: Array, e: Array, lr_next: Array) -> None:
    one, other = g.reshape(-1), e.reshape(-1)
    along = np.float32(one @ other)
    if op.normalized_lr_adaption:
        lengths = [np.maximum(np.sqrt(np.float32(each @ each)), NORM_MIN) for each in (one, other)]
        lr_next[...] = lr * (1 - np.float32(op.lr_alpha) * (along / (lengths[0] * lengths[1])))
    else:
        lr_next[...] = lr - np.float32(op.lr_alpha) * along


def _adapted(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    totals = {"dots": Total("sum", "g * e")}
    row = {"lr_next": "lr - lr_alpha * dots"}
    if op.normalized_lr_adaption:
        totals |= {"own": Total("sum", "g * g"), "other": Total("sum", "e * e")}
        lengths = " * ".join(f"max(sqrt({name}), {NORM_MIN})" for name in ("own", "other"))
        row = {"lr_next": f"lr * (1 - lr_alpha * (dots / ({lengths})))"}
    return RowProgram(Cut(1, specs["g"].size), totals, row, lies={"lr": "one"})


row_program(ADAPTION, _adapted)
