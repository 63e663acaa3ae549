"""Adam: updates by estimates of the first two moments of the gradient.

W are the parameters, dW their gradient, M and V the estimates, each with as many elements; lr is the learning rate, t
the number of the step, from 1: iter + 1:

    M'   = beta1 M + (1 - beta1) dW
    V'   = beta2 V + (1 - beta2) dW^2
    step = sqrt(1 - beta2^t) / (1 - beta1^t) * M' / (sqrt(V') + epsilon)
    W'   = W + lr step

It adds, so lr is negative. epsilon stands outside of the correction, which is the paper's epsilon-hat.
Source: Kingma, Ba 2014, arXiv 1412.6980, section 2, with the order of computation at its end; Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, arg, blob, formula, kernel, schema, show_dims
from tazza.ops.optimizer.rows import Rows, on_rows, update_rows
from tazza.ops.optimizer.update import ITER, LR, NO_GRADIENT, one_rate
from tazza.ops.shape.axis import agree, product, require_one_element
from tazza.tensor import TensorSpec

ADAM = schema(
    "Adam",
    "W_next = W + lr * step, with step = sqrt(1 - beta2^t) / (1 - beta1^t) * M_next / (sqrt(V_next) + epsilon).",
    inputs=[
        blob("W", FLOAT, role=Role.PARAMETER),
        blob("M", FLOAT, role=Role.STATE, doc="estimate of the mean of dW"),
        blob("V", FLOAT, role=Role.STATE, doc="estimate of the mean of dW * dW"),
        blob("dW", FLOAT),
        LR,
        ITER,
    ],
    outputs=[
        blob("W_next", like="W"),
        blob("M_next", like="M"),
        blob("V_next", like="V"),
        blob("step", like="dW", optional=True),
    ],
    args=[
        arg("beta1", float, 0.9, doc="decay of M"),
        arg("beta2", float, 0.999, doc="decay of V"),
        arg("epsilon", float, 1e-5, doc="added to the root of V"),
    ],
    in_place={"W_next": "W", "M_next": "M", "V_next": "V"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Kingma, Ba 2014, arXiv 1412.6980",
    example="""
    >>> zero = np.zeros(2, "f")
    >>> W, M, V = run("Adam", zero, zero, zero, [1.0, -4.0], [-0.5], np.array([0]), beta1=0.5, epsilon=0.0)
    >>> W.round(3), M
    (array([-0.5,  0.5], dtype=float32), array([ 0.5, -2. ], dtype=float32))
    """,
)


@ADAM.infer
def adam_infer(
    op: OpView, dW: TensorSpec, lr: TensorSpec, iter: TensorSpec, **state: TensorSpec
) -> tuple[TensorSpec, ...]:
    require_one_element(op, "lr", lr.dims)
    require_one_element(op, "iter", iter.dims)
    count = None if dW.dims is None else product(dW.dims)
    for letter, spec in state.items():
        if spec.dims is not None:
            relation = f"{letter} has the shape {show_dims(spec.dims)}, dW has {count} elements"
            op.require(agree(product(spec.dims), count), relation, "all must have as many elements")
    specs = (state["W"], state["M"], state["V"], dW)
    return tuple(TensorSpec(spec.dims, spec.dtype) for spec in specs[: len(op.output_letters)])


@ADAM.cost
def adam_cost(op: OpView, W: TensorSpec, step: TensorSpec | None, **others: TensorSpec) -> Cost:
    del op, others
    return Cost(13 * W.size, 4 * W.nbytes, 3 * W.nbytes + (0 if step is None else step.nbytes), W.nbytes)


CORRECTION = {"correction": "sqrt(1 - pow(beta2, iter + 1)) / (1 - pow(beta1, iter + 1))"}
"""What makes up for moments that began with 0, as a formula."""
MEAN = "beta1 * M + (1 - beta1) * dW"


def move(square: str) -> str:
    """Return the formula of the step, by that of V'."""
    return f"correction * ({MEAN}) / (sqrt({square}) + epsilon)"


def _texts(op: OpView) -> dict[str, str]:
    square = "beta2 * V + (1 - beta2) * square(dW)"
    step = move(square)
    texts = {"W_next": f"W + lr * ({step})", "M_next": MEAN, "V_next": square, "step": step}
    return {letter: texts[letter] for letter in op.output_letters}


formula(ADAM, _texts, align=one_rate, scalars=CORRECTION)


def bias_correction(op: OpView, iter: Array) -> np.float64:
    """Return what makes up for moments that began with 0: sqrt(1 - beta2^t) / (1 - beta1^t)."""
    t = iter.reshape(()).item() + 1
    with np.errstate(all="ignore"):  # decays of 1 and more give infinity or NaN
        return np.float64(np.sqrt(1 - np.float64(op.beta2) ** t) / (1 - np.float64(op.beta1) ** t))


@kernel(ADAM)
def adam(
    op: OpView,
    W: Array,
    M: Array,
    V: Array,
    dW: Array,
    lr: Array,
    iter: Array,
    W_next: Array,
    M_next: Array,
    V_next: Array,
    step: Array | None,
) -> None:
    correction = bias_correction(op, iter)
    mean = op.beta1 * M + (1 - op.beta1) * dW.reshape(M.shape)
    square = op.beta2 * V + (1 - op.beta2) * np.square(dW.reshape(V.shape))
    move = correction * mean.reshape(dW.shape) / (np.sqrt(square.reshape(dW.shape)) + op.epsilon)
    W_next[...] = W + lr.reshape(()) * move.reshape(W.shape)
    M_next[...] = mean
    V_next[...] = square
    if step is not None:
        step[...] = move


ROWS = Rows(ADAM, kept={"W": "W_next", "M": "M_next", "V": "V_next"}, rows=("dW",))
SPARSE_ADAM = on_rows(
    ROWS,
    "SparseAdam",
    ["W", "M", "V", "indices", "dW", "lr", "iter"],
    """
    >>> from tazza.operator import LocalBlobs, Operator, operator_def
    >>> from tazza.tensor import Tensor
    >>> blobs, zero = LocalBlobs(), np.zeros(3, "f")
    >>> rows, step, rate = np.array([2, 0]), np.array([1.0, -4.0], "f"), np.array([-0.5], "f")
    >>> values = {"W": zero, "M": zero, "V": zero, "i": rows, "dW": step, "lr": rate, "t": np.array([0])}
    >>> for name, value in values.items():
    ...     blobs.create_blob(name).set(Tensor.from_numpy(value.copy()))
    >>> Operator(operator_def("SparseAdam", list(values), ["W", "M", "V"], beta1=0.5, epsilon=0.0), blobs).run()
    >>> blobs.blobs["W"].tensor().numpy().round(3)
    array([ 0.5,  0. , -0.5], dtype=float32)
    """,
    optional=["step"],
)


@kernel(SPARSE_ADAM)
def sparse_adam(
    op: OpView,
    W: Array,
    M: Array,
    V: Array,
    indices: Array,
    dW: Array,
    lr: Array,
    iter: Array,
    W_next: Array,
    M_next: Array,
    V_next: Array,
    step: Array | None,
) -> None:
    given = {"W": W, "M": M, "V": V, "indices": indices, "dW": dW, "lr": lr, "iter": iter}
    given |= {} if step is None else {"step": step}
    update_rows(op, ROWS, adam, **given, W_next=W_next, M_next=M_next, V_next=V_next)
