"""Adadelta: steps as large as steps were of late, for whole parameters and for rows of them.

W are the parameters, dW their gradient, M and D the running means of the squares of gradients and steps; lr is the
learning rate:

    M'   = decay M + (1 - decay) dW^2
    step = sqrt(D + epsilon) / sqrt(M' + epsilon) dW
    W'   = W + lr step
    D'   = decay D + (1 - decay) step^2

It adds, so lr is negative. Source: Zeiler 2012, algorithm 1; Caffe2.
"""

from __future__ import annotations

import math

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, arg, blob, formula, kernel, schema
from tazza.ops.optimizer.rows import Rows, on_rows, update_rows
from tazza.ops.optimizer.update import LR, NO_GRADIENT, complement, one_rate
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.tensor import TensorSpec

ADADELTA = schema(
    "Adadelta",
    """W_next = W + lr * step, with step = sqrt(D + epsilon) / sqrt(M_next + epsilon) * dW.

    M_next = decay * M + (1 - decay) * dW^2, D_next = decay * D + (1 - decay) * step^2.""",
    inputs=[
        blob("W", FLOAT, role=Role.PARAMETER),
        blob("M", FLOAT, role=Role.STATE, doc="running mean of the square of dW"),
        blob("D", FLOAT, role=Role.STATE, doc="running mean of the square of steps"),
        blob("dW", FLOAT),
        LR,
    ],
    outputs=[
        blob("W_next", like="W"),
        blob("M_next", like="M"),
        blob("D_next", like="D"),
    ],
    args=[
        arg("epsilon", float, 1e-5, doc="added to M_next and D under their roots"),
        arg("decay", float, 0.95, doc="of M and D"),
    ],
    in_place={"W_next": "W", "M_next": "M", "D_next": "D"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Zeiler 2012",
    example="""
    >>> W, M, D = run("Adadelta", [1.0, 2.0], [4.0, 0.0], [4.0, 1.0], [2.0, 1.0], [-0.5], epsilon=0.0, decay=0.0)
    >>> W, M, D
    (array([0. , 1.5], dtype=float32), array([4., 1.], dtype=float32), array([4., 1.], dtype=float32))
    """,
)


@ADADELTA.infer
def adadelta_infer(
    op: OpView, W: TensorSpec, M: TensorSpec, D: TensorSpec, dW: TensorSpec, lr: TensorSpec
) -> tuple[TensorSpec, ...]:
    require_one_element(op, "lr", lr.dims)
    require_as_many(op, "dW", dW.dims, W=W.dims, M=M.dims, D=D.dims)
    return tuple(TensorSpec(spec.dims, spec.dtype) for spec in (W, M, D))


@ADADELTA.cost
def adadelta_cost(op: OpView, W: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return Cost(14 * W.size, 4 * W.nbytes, 3 * W.nbytes, W.nbytes)


def _texts(op: OpView) -> dict[str, str]:
    if not math.isfinite(op.decay):
        return {}  # no formula can name it
    new = f"({complement(op.decay)})"
    mean = f"(decay * M + {new} * dW * dW)"
    step = f"(sqrt(D + epsilon) / sqrt({mean} + epsilon) * dW)"
    return {"W_next": f"W + lr * {step}", "M_next": mean, "D_next": f"decay * D + {new} * {step} * {step}"}


formula(ADADELTA, _texts, align=one_rate)


@kernel(ADADELTA)
def adadelta(
    op: OpView,
    W: Array,
    M: Array,
    D: Array,
    dW: Array,
    lr: Array,
    W_next: Array,
    M_next: Array,
    D_next: Array,
) -> None:
    decay, epsilon = np.float32(op.decay), np.float32(op.epsilon)
    new, before = np.float32(complement(op.decay)), D.reshape(dW.shape)
    square = decay * M.reshape(dW.shape) + new * np.square(dW)
    step = np.sqrt(before + epsilon) / np.sqrt(square + epsilon) * dW
    W_next[...] = W + (lr.reshape(()) * step).reshape(W.shape)
    M_next[...] = square.reshape(M.shape)
    D_next[...] = (decay * before + new * np.square(step)).reshape(D.shape)


ROWS = Rows(ADADELTA, kept={"W": "W_next", "M": "M_next", "D": "D_next"}, rows=("dW",))
SPARSE_ADADELTA = on_rows(
    ROWS,
    "SparseAdadelta",
    ["W", "M", "D", "indices", "dW", "lr"],
    """
    >>> from tazza.operator import LocalBlobs, Operator, operator_def
    >>> from tazza.tensor import Tensor
    >>> blobs = LocalBlobs()
    >>> values = {"W": [1.0, 2.0, 3.0], "M": [4.0, 0.0, 5.0], "D": [4.0, 1.0, 1.0], "i": [1, 0]}
    >>> values |= {"dW": [1.0, 2.0], "lr": [-0.5]}
    >>> for name, value in values.items():
    ...     blobs.create_blob(name).set(Tensor.from_numpy(np.array(value, "i" if name == "i" else "f")))
    >>> Operator(operator_def("SparseAdadelta", list(values), ["W", "M", "D"], epsilon=0.0, decay=0.0), blobs).run()
    >>> blobs.blobs["W"].tensor().numpy()
    array([0. , 1.5, 3. ], dtype=float32)
    """,
)


@kernel(SPARSE_ADADELTA)
def sparse_adadelta(
    op: OpView,
    W: Array,
    M: Array,
    D: Array,
    indices: Array,
    dW: Array,
    lr: Array,
    W_next: Array,
    M_next: Array,
    D_next: Array,
) -> None:
    given = {"W": W, "M": M, "D": D, "indices": indices, "dW": dW, "lr": lr}
    update_rows(op, ROWS, adadelta, **given, W_next=W_next, M_next=M_next, D_next=D_next)
