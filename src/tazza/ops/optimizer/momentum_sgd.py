"""Gradient descent with momentum: MomentumSGD, MomentumSGDUpdate; FP32- and FP16MomentumSGDUpdate, with decay.

W are the parameters, dW their gradient, M the momentum, each of any shape with as many elements; lr is the learning
rate, positive; m = `momentum`:

    M'   = m M + lr dW
    step = M', or with `nesterov` (1 + m) M' - m M
    W'   = W - step

With decay, dW + `weight_decay` W stands for dW. What lies in float16 is computed in float32 and rounded once.

The learning rate is inside of the momentum: a change of it acts on what was gathered before with the old one.
Source: Polyak 1964; Sutskever, Martens, Dahl, Hinton 2013, section 2 (Nesterov); Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    FLOAT,
    ArgSpec,
    Array,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    family,
    formula,
    kernel,
    schema,
)
from tazza.ops.optimizer.rows import Rows, on_rows, update_rows
from tazza.ops.optimizer.update import NO_GRADIENT, one_rate
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.tensor import DataType, TensorSpec

ARGS = (arg("momentum", float, 0.0, doc="m"), arg("nesterov", bool, False, doc="look ahead by one more step"))


def _advance(op: OpView, dW: Array, M: Array, lr: Array, step: Array, M_next: Array) -> None:
    """Write M' and the step; each may be in place of its input."""
    push = lr.reshape(()) * dW
    after = op.momentum * M.reshape(dW.shape) + push
    if op.nesterov:  # (1 + m) M' - m M = m M' + lr dW, without a look at M
        np.multiply(after, op.momentum, out=step)
        np.add(step, push, out=step)
    else:
        step[...] = after
    M_next[...] = after.reshape(M.shape)


def _texts(op: OpView, gradient: str = "dW") -> dict[str, str]:
    after, push = f"(momentum * M + lr * {gradient})", f"lr * {gradient}"
    step = f"momentum * {after} + {push}" if op.nesterov else after
    texts = {"step": step, "M_next": after, "W_next": f"W - ({step})"}
    return {letter: texts[letter] for letter in op.output_letters}


MOMENTUM_SGD = schema(
    "MomentumSGD",
    "M_next = m M + lr dW; step = M_next, or with nesterov (1 + m) M_next - m M.",
    inputs=[
        blob("dW", FLOAT),
        blob("M", FLOAT, role=Role.STATE),
        blob("lr", FLOAT, role=Role.PARAMETER, doc="of one element"),
    ],
    outputs=[blob("step", like="dW"), blob("M_next", like="M")],
    args=ARGS,
    in_place={"step": "dW", "M_next": "M"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Polyak 1964; Sutskever et al. 2013",
    example="""
    >>> step, M = run("MomentumSGD", [2.0], [10.0], 0.5, momentum=0.5)
    >>> step, M
    (array([6.], dtype=float32), array([6.], dtype=float32))
    """,
)


@MOMENTUM_SGD.infer
def momentum_sgd_infer(op: OpView, dW: TensorSpec, M: TensorSpec, lr: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    require_one_element(op, "lr", lr.dims)
    require_as_many(op, "dW", dW.dims, M=M.dims)
    return dW, M


@MOMENTUM_SGD.cost
def momentum_sgd_cost(
    op: OpView, dW: TensorSpec, M: TensorSpec, lr: TensorSpec, step: TensorSpec, M_next: TensorSpec
) -> Cost:
    flops = (6 if op.nesterov else 3) * dW.size
    return Cost(flops, dW.nbytes + M.nbytes + lr.nbytes, step.nbytes + M_next.nbytes)


formula(MOMENTUM_SGD, _texts, align=one_rate)


@kernel(MOMENTUM_SGD)
def momentum_sgd(op: OpView, dW: Array, M: Array, lr: Array, step: Array, M_next: Array) -> None:
    _advance(op, dW, M, lr, step, M_next)


MOMENTUM_SGD_UPDATE = schema(
    "MomentumSGDUpdate",
    """W_next = W - step, with step and M_next as MomentumSGD makes them.

    It subtracts, so lr is positive, while Adam, Adagrad and WeightedSum add.""",
    inputs=[
        blob("dW", FLOAT),
        blob("M", FLOAT, role=Role.STATE),
        blob("lr", FLOAT, role=Role.PARAMETER, doc="of one element"),
        blob("W", FLOAT, role=Role.PARAMETER),
    ],
    outputs=[blob("step", like="dW"), blob("M_next", like="M"), blob("W_next", like="W")],
    args=ARGS,
    in_place={"step": "dW", "M_next": "M", "W_next": "W"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Polyak 1964; Sutskever et al. 2013",
    example="""
    >>> step, M, W = run("MomentumSGDUpdate", [2.0], [10.0], 0.5, [7.0], momentum=0.5)
    >>> W
    array([1.], dtype=float32)
    """,
)


@MOMENTUM_SGD_UPDATE.infer
def momentum_sgd_update_infer(
    op: OpView, dW: TensorSpec, M: TensorSpec, lr: TensorSpec, W: TensorSpec
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    require_one_element(op, "lr", lr.dims)
    require_as_many(op, "dW", dW.dims, M=M.dims, W=W.dims)
    return dW, M, W


@MOMENTUM_SGD_UPDATE.cost
def momentum_sgd_update_cost(
    op: OpView,
    dW: TensorSpec,
    M: TensorSpec,
    lr: TensorSpec,
    W: TensorSpec,
    step: TensorSpec,
    M_next: TensorSpec,
    W_next: TensorSpec,
) -> Cost:
    flops = (7 if op.nesterov else 4) * dW.size
    written = step.nbytes + M_next.nbytes + W_next.nbytes
    return Cost(flops, dW.nbytes + M.nbytes + lr.nbytes + W.nbytes, written, W.nbytes)


formula(MOMENTUM_SGD_UPDATE, _texts, align=one_rate)


@kernel(MOMENTUM_SGD_UPDATE)
def momentum_sgd_update(
    op: OpView, dW: Array, M: Array, lr: Array, W: Array, step: Array, M_next: Array, W_next: Array
) -> None:
    _advance(op, dW, M, lr, step, M_next)
    np.subtract(W, step.reshape(W.shape), out=W_next)


ROWS = Rows(MOMENTUM_SGD_UPDATE, kept={"M": "M_next", "W": "W_next"}, rows=("dW",))
SPARSE_MOMENTUM_SGD_UPDATE = on_rows(
    ROWS,
    "SparseMomentumSGDUpdate",
    ["dW", "M", "lr", "W", "indices"],
    """
    >>> from tazza.operator import LocalBlobs, Operator, operator_def
    >>> from tazza.tensor import Tensor
    >>> blobs = LocalBlobs()
    >>> values = {"dW": [2.0, 4.0], "M": [10.0, 0.0, 0.0], "lr": [0.5], "W": [7.0, 8.0, 9.0], "i": [0, 2]}
    >>> for name, value in values.items():
    ...     blobs.create_blob(name).set(Tensor.from_numpy(np.array(value, "i" if name == "i" else "f")))
    >>> update = operator_def("SparseMomentumSGDUpdate", list(values), ["dW", "M", "W"], momentum=0.5)
    >>> Operator(update, blobs).run()
    >>> blobs.blobs["W"].tensor().numpy()
    array([1., 8., 7.], dtype=float32)
    """,
)


@kernel(SPARSE_MOMENTUM_SGD_UPDATE)
def sparse_momentum_sgd_update(
    op: OpView, dW: Array, M: Array, lr: Array, W: Array, indices: Array, step: Array, M_next: Array, W_next: Array
) -> None:
    arrays = {"dW": dW, "M": M, "lr": lr, "W": W, "indices": indices, "step": step, "M_next": M_next, "W_next": W_next}
    update_rows(op, ROWS, momentum_sgd_update, **arrays)


@dataclass(frozen=True, slots=True)
class Decayed:
    """The element types of all but lr, further arguments, and how NumPy shows the type."""

    dtypes: frozenset[DataType]
    args: tuple[ArgSpec, ...]
    shown: str


FP32_UPDATE = arg("fp32_update", bool, False, doc="has no effect: it is computed in float32 anyway")


@family(
    {
        "FP32MomentumSGDUpdate": Decayed(FLOAT, (), "float32"),
        "FP16MomentumSGDUpdate": Decayed(frozenset({DataType.FLOAT16}), (FP32_UPDATE,), "float16"),
    }
)
def decayed_updates(type: str, row: Decayed) -> OpSchema:
    """Updates with decay of the weights."""
    dense = MOMENTUM_SGD_UPDATE
    made = schema(
        type,
        "As MomentumSGDUpdate with dW + weight_decay * W for dW.",
        inputs=[
            blob("dW", row.dtypes),
            blob("M", row.dtypes, role=Role.STATE),
            dense.inputs_by_letter["lr"],
            blob("W", row.dtypes, role=Role.PARAMETER),
        ],
        outputs=dense.outputs,
        args=[*ARGS, arg("weight_decay", float, 0.0, doc="times W is added to the gradient"), *row.args],
        in_place={"step": "dW", "M_next": "M", "W_next": "W"},
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
    >>> dW, M, W = (np.array([value], np.{row.shown}) for value in (2.0, 10.0, 8.0))
    >>> run("{type}", dW, M, 0.5, W, momentum=0.5, weight_decay=0.25)[2]
    array([1.], dtype={row.shown})
    """,
    )
    made.infer(momentum_sgd_update_infer)

    @made.cost
    def cost(op: OpView, W: TensorSpec, **others: TensorSpec) -> Cost:
        del others
        return Cost((9 if op.nesterov else 6) * W.size, 3 * W.nbytes + 4, 3 * W.nbytes, W.nbytes)

    formula(made, lambda op: _texts(op, "(dW + weight_decay * W)"), align=one_rate)

    @kernel(made)
    def update(op: OpView, dW: Array, M: Array, lr: Array, W: Array, step: Array, M_next: Array, W_next: Array) -> None:
        before = W.astype(np.float32)
        gradient = dW + op.weight_decay * before.reshape(dW.shape)
        moved, after = np.empty(dW.shape, np.float32), np.empty(M.shape, np.float32)
        _advance(op, gradient, M.astype(np.float32), lr, moved, after)
        step[...], M_next[...] = moved, after
        W_next[...] = before - moved.reshape(W.shape)

    return made
