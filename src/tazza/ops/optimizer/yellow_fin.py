"""YellowFin: momentum whose rate and factor follow from what the gradients say of the curvature.

W are the parameters, dW their gradient, M the momentum; lr and mu (1) are tuned, t = iter counts steps from 0. An
average a of what is seen, x, is a' = beta a + (1 - beta) x, and divided by 1 - beta^t with `zero_debias`:

    M' = mu M + lr dW;    W' = W - M', or with `nesterov` W - (1 + mu) M' + mu M
    n2 = sum of dW^2, at least epsilon;    curvatures: log(n2) of the last `curv_win_width` steps

`averages` (5) are those of sqrt(n2), n2, the least and the largest log(n2) in the window, and of the distance D, which
is the first of them divided by the second. From step 1 on the window holds something, from step 2 on there is tuning:

    h = exp(least);    H = exp(largest);    C = average of n2 - sum of (average of dW)^2, at least epsilon
    x in [0, 1] with p x = (1 - x)^3 for p = D^2 h^2 / 2 C
    mu, lr = averages of mu* = max(x^2, ((sqrt(H / h) - 1) / (sqrt(H / h) + 1))^2) and of (1 - sqrt(mu*))^2 / h

Source: Zhang, Mitliagkas 2017, arXiv 1706.03471, algorithms 1 to 4; Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, arg, blob, kernel, schema, show_dims
from tazza.ops.optimizer.update import ITER, NO_GRADIENT
from tazza.ops.shape.axis import agree, product, require_as_many, require_one_element
from tazza.tensor import TensorSpec

AVERAGES = 5

YELLOW_FIN = schema(
    "YellowFin",
    """W_next = W - M_next, with M_next = mu * M + lr * dW; lr and mu are tuned by what the gradients say.

    It subtracts, so lr is positive. g_avg and g2_avg are averages of dW and dW^2.""",
    inputs=[
        blob("W", FLOAT, role=Role.PARAMETER),
        blob("M", FLOAT, role=Role.STATE, doc="momentum, of the shape of W"),
        blob("lr", FLOAT, role=Role.STATE, doc="of one element: the learning rate, which is tuned"),
        blob("mu", FLOAT, role=Role.STATE, doc="of one element: the factor of the momentum, which is tuned"),
        blob("window", FLOAT, role=Role.STATE, doc="of curv_win_width elements: log(n2) of the last steps"),
        blob("g_avg", FLOAT, role=Role.STATE, doc="average of dW"),
        blob("g2_avg", FLOAT, role=Role.STATE, doc="average of dW * dW"),
        blob("averages", FLOAT, role=Role.STATE, doc="of 5 elements: of norms, their squares, log bounds, distances"),
        blob("dW", FLOAT, role=Role.DATA),
        ITER,
    ],
    outputs=[
        blob("W_next", like="W"),
        blob("M_next", like="M"),
        blob("lr_next", like="lr"),
        blob("mu_next", like="mu"),
        blob("window_next", like="window"),
        blob("g_avg_next", like="g_avg"),
        blob("g2_avg_next", like="g2_avg"),
        blob("averages_next", like="averages"),
    ],
    args=[
        arg("beta", float, 0.999, doc="how slowly averages forget"),
        arg("curv_win_width", int, 20, minimum=1, maximum=2**20, doc="steps of which the window holds the curvatures"),
        arg("epsilon", float, 1e-6, doc="the least n2 and C"),
        arg("nesterov", bool, False, doc="look ahead by one more step"),
        arg("zero_debias", bool, True, doc="make up for averages that began with 0"),
    ],
    in_place={
        "W_next": "W",
        "M_next": "M",
        "lr_next": "lr",
        "mu_next": "mu",
        "window_next": "window",
        "g_avg_next": "g_avg",
        "g2_avg_next": "g2_avg",
        "averages_next": "averages",
    },
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Zhang, Mitliagkas 2017, arXiv 1706.03471",
    example="""
    >>> W, zero, window, averages = (np.zeros(n, "f") for n in (2, 2, 20, 5))
    >>> inputs = W, zero, [0.5], [0.0], window, zero, zero, averages, [2.0, -4.0], np.array([0])
    >>> run("YellowFin", *inputs)[0]
    array([-1.,  2.], dtype=float32)
    """,
)


@YELLOW_FIN.infer
def yellow_fin_infer(
    op: OpView, W: TensorSpec, dW: TensorSpec, iter: TensorSpec, **state: TensorSpec
) -> tuple[TensorSpec, ...]:
    for letter, spec in (("lr", state["lr"]), ("mu", state["mu"]), ("iter", iter)):
        require_one_element(op, letter, spec.dims)
    for letter, spec in (("M", state["M"]), ("dW", dW)):
        if W.dims is not None and spec.dims is not None:
            alike = len(W.dims) == len(spec.dims) and all(map(agree, W.dims, spec.dims))
            op.require(alike, f"{letter} has the shape {show_dims(spec.dims)}, W has {show_dims(W.dims)}")
    require_as_many(op, "W", W.dims, g_avg=state["g_avg"].dims, g2_avg=state["g2_avg"].dims)
    for letter, least in (("window", op.curv_win_width), ("averages", AVERAGES)):
        dims = state[letter].dims
        count = None if dims is None else product(dims)
        op.require(count is None or count >= least, f"{letter} has {count} elements, it must have {least}")
    specs = {"W": W, **state}
    return tuple(specs[str(spec.like)] for spec in op.schema.outputs)


@YELLOW_FIN.cost
def yellow_fin_cost(op: OpView, W: TensorSpec, window: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return Cost(16 * W.size, 5 * W.nbytes + window.nbytes, 4 * W.nbytes + window.nbytes, W.nbytes)


def _averaged(op: OpView, before: Array, seen: Array | np.float32) -> Array:
    beta = np.float32(op.beta)
    return before if beta == 1 else beta * before + (1 - beta) * seen


def _root(p: np.float64) -> np.float64:
    """Return x with p x = (1 - x)^3, by the formula for cubic equations."""
    w = -np.cbrt((np.sqrt(p * p + 4 / 27 * p**3) + p) / 2)
    return w - p / (3 * w) + 1


def _tuned(op: OpView, t: int, averages: Array, g_avg: Array) -> tuple[np.float32, np.float32]:
    """Return mu* and the rate that step t tends to."""
    share = 1 - np.float64(np.float32(op.beta)) ** t if op.zero_debias else 1.0
    _, n2, least, largest, D = averages[:AVERAGES].astype(np.float64) / share
    h, H = np.exp(least), np.exp(largest)
    C = np.maximum(n2 - np.square(g_avg / share, dtype=np.float64).sum(), op.epsilon)
    ratio = np.sqrt(H / h)
    mu = np.maximum(_root((D * h) ** 2 / 2 / C) ** 2, ((ratio - 1) / (ratio + 1)) ** 2)
    return np.float32(mu), np.float32((1 - np.sqrt(mu)) ** 2 / h)


def _seen(op: OpView, t: int, n2: np.float32, window: Array, averages: Array) -> Array:
    """Note the curvature of step t in the window and return the averages behind it."""
    found, own = averages.copy(), averages.reshape(-1)
    flat = found.reshape(-1)
    flat[:2] = _averaged(op, own[:2], np.array([np.sqrt(n2), n2]))
    flat[4] = _averaged(op, own[4], flat[0] / flat[1])
    if t >= 1:
        width = op.curv_win_width
        window.reshape(-1)[(t - 1) % width] = np.log(n2)
        held = window.reshape(-1)[: min(t, width)]
        flat[2:4] = _averaged(op, own[2:4], np.array([held.min(), held.max()]))
    return found


@kernel(YELLOW_FIN)
def yellow_fin(
    op: OpView,
    W: Array,
    M: Array,
    lr: Array,
    mu: Array,
    window: Array,
    g_avg: Array,
    g2_avg: Array,
    averages: Array,
    dW: Array,
    iter: Array,
    W_next: Array,
    M_next: Array,
    lr_next: Array,
    mu_next: Array,
    window_next: Array,
    g_avg_next: Array,
    g2_avg_next: Array,
    averages_next: Array,
) -> None:
    t, rate, factor = int(iter.reshape(())), lr.reshape(()), mu.reshape(())
    moved = factor * M + rate * dW
    step = (1 + factor) * moved - factor * M if op.nesterov else moved
    squares = np.square(dW)
    with np.errstate(all="ignore"):  # an average that forgets nothing, or all, divides by 0
        curvatures = window.copy()
        n2 = np.maximum(squares.sum(dtype=np.float32), np.float32(op.epsilon))
        seen = _seen(op, t, n2, curvatures, averages)
        mean = _averaged(op, g_avg, dW.reshape(g_avg.shape))
        found = _tuned(op, t, seen.reshape(-1), mean) if t >= 2 else None
    g2_avg_next[...] = _averaged(op, g2_avg, squares.reshape(g2_avg.shape))
    g_avg_next[...], window_next[...], averages_next[...] = mean, curvatures, seen
    W_next[...], M_next[...] = W - step, moved
    tuned = (mu, lr) if found is None else (_averaged(op, mu, found[0]), _averaged(op, lr, found[1]))
    mu_next[...], lr_next[...] = tuned
