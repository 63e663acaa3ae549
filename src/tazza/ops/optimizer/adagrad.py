"""Adagrad: steps that become smaller the more an element has moved, for whole parameters and for rows of them.

W are the parameters, dW their gradient, M the sum of squares; lr is the learning rate:

    g    = dW + weight_decay W
    M'   = decay M + g^2
    rate = lr / (sqrt(M') + epsilon)
    W'   = W + rate g

It adds, so lr is negative. Source: Duchi, Hazan, Singer 2011, section 1.1; Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, arg, blob, formula, kernel, schema
from tazza.ops.optimizer.rows import Rows, on_rows, update_rows
from tazza.ops.optimizer.update import LR, NO_GRADIENT, one_rate
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.tensor import TensorSpec

ADAGRAD = schema(
    "Adagrad",
    """W_next = W + rate * g, with M_next = decay * M + g^2, rate = lr / (sqrt(M_next) + epsilon).

    g is dW + weight_decay * W.""",
    inputs=[
        blob("W", FLOAT, role=Role.PARAMETER),
        blob("M", FLOAT, role=Role.STATE, doc="sum of squares"),
        blob("dW", FLOAT),
        LR,
    ],
    outputs=[
        blob("W_next", like="W"),
        blob("M_next", like="M"),
        blob("rate", like="dW", optional=True),
        blob("step", like="dW", optional=True, doc="rate * g"),
    ],
    args=[
        arg("epsilon", float, 1e-5, doc="added to the root of M_next"),
        arg("decay", float, 1.0, doc="of M"),
        arg("weight_decay", float, 0.0, doc="times W is added to the gradient"),
    ],
    in_place={"W_next": "W", "M_next": "M"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Duchi, Hazan, Singer 2011",
    example="""
    >>> W, M = run("Adagrad", [1.0, 2.0], [0.0, 7.0], [2.0, -3.0], [-0.5], epsilon=0.0)
    >>> W, M
    (array([0.5  , 2.375], dtype=float32), array([ 4., 16.], dtype=float32))
    """,
)


@ADAGRAD.infer
def adagrad_infer(op: OpView, W: TensorSpec, M: TensorSpec, dW: TensorSpec, lr: TensorSpec) -> tuple[TensorSpec, ...]:
    require_one_element(op, "lr", lr.dims)
    require_as_many(op, "dW", dW.dims, M=M.dims, W=W.dims)
    return tuple(TensorSpec(spec.dims, spec.dtype) for spec in (W, M, dW, dW)[: len(op.output_letters)])


@ADAGRAD.cost
def adagrad_cost(op: OpView, W: TensorSpec, **others: TensorSpec | None) -> Cost:
    extra = sum(op.has_output(letter) for letter in ("rate", "step"))
    del others
    return Cost(9 * W.size, 3 * W.nbytes, (2 + extra) * W.nbytes, W.nbytes)


def _texts(op: OpView) -> dict[str, str]:
    gradient = "dW" if op.weight_decay == 0 else "(dW + weight_decay * W)"
    square = f"{'M' if op.decay == 1 else 'decay * M'} + {gradient} * {gradient}"
    rate = f"lr / (sqrt({square}) + epsilon)"
    step = f"{rate} * {gradient}"
    texts = {"W_next": f"W + {step}", "M_next": square, "rate": rate, "step": step}
    return {letter: texts[letter] for letter in op.output_letters}


formula(ADAGRAD, _texts, align=one_rate)


@kernel(ADAGRAD)
def adagrad(
    op: OpView,
    W: Array,
    M: Array,
    dW: Array,
    lr: Array,
    W_next: Array,
    M_next: Array,
    rate: Array | None,
    step: Array | None,
) -> None:
    gradient = decayed(op, dW, W.reshape(dW.shape))
    square = op.decay * M.reshape(dW.shape) + np.square(gradient)
    rates = lr.reshape(()) / (np.sqrt(square) + op.epsilon)
    W_next[...] = W + (rates * gradient).reshape(W.shape)
    M_next[...] = square.reshape(M.shape)
    if rate is not None:
        rate[...] = rates
    if step is not None:
        step[...] = rates * gradient


def decayed(op: OpView, dW: Array, W: Array) -> Array:
    """Return dW + weight_decay W; without decay W has no part in it, whatever is infinite there."""
    return dW if op.weight_decay == 0 else dW + np.float32(op.weight_decay) * W


ROWS = Rows(ADAGRAD, kept={"W": "W_next", "M": "M_next"}, rows=("dW",))
SPARSE_ADAGRAD = on_rows(
    ROWS,
    "SparseAdagrad",
    ["W", "M", "indices", "dW", "lr"],
    """
    >>> from tazza.operator import LocalBlobs, Operator, operator_def
    >>> from tazza.tensor import Tensor
    >>> blobs = LocalBlobs()
    >>> values = {"W": [1.0, 2.0, 3.0], "M": [0.0, 7.0, 5.0], "i": [1, 0], "dW": [-3.0, 2.0], "lr": [-0.5]}
    >>> for name, value in values.items():
    ...     blobs.create_blob(name).set(Tensor.from_numpy(np.array(value, "i" if name == "i" else "f")))
    >>> Operator(operator_def("SparseAdagrad", list(values), ["W", "M"], epsilon=0.0), blobs).run()
    >>> blobs.blobs["W"].tensor().numpy()
    array([0.5  , 2.375, 3.   ], dtype=float32)
    """,
)


@kernel(SPARSE_ADAGRAD)
def sparse_adagrad(
    op: OpView, W: Array, M: Array, indices: Array, dW: Array, lr: Array, W_next: Array, M_next: Array
) -> None:
    update_rows(op, ROWS, adagrad, W=W, M=M, indices=indices, dW=dW, lr=lr, W_next=W_next, M_next=M_next)
