"""The best path through scores and transitions, and scores that follow a path: ViterbiPath, SwapBestPath.

T steps, K states: P (T, K) scores each state at each step, A (K, K) a step from state i to state j.

Sources: Viterbi 1967; Lafferty, McCallum, Pereira 2001; Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, blob, ends, kernel, schema, streamed
from tazza.ops.shape.axis import require_within
from tazza.tensor import DataType, TensorSpec

NO_GRADIENT = ends("Caffe2 ends the backward pass here")

VITERBI_PATH = schema(
    "ViterbiPath",
    """path = the states s with the largest sum of P[t, s[t]] and A[s[t], s[t + 1]]; of equal ones the first.

    NaN is passed over, but at the start: nothing is above it.""",
    inputs=[blob("P", FLOAT, "T K"), blob("A", "P", "K K", role=Role.PARAMETER)],
    outputs=[blob("path", DataType.INT32, "T")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Viterbi 1967; Caffe2",
    example="""
    >>> run("ViterbiPath", [[0.0, 1.0], [2.0, 0.0]], [[0.0, 0.0], [-3.0, 0.0]])
    array([0, 0], dtype=int32)
    """,
)
SWAP_BEST_PATH = schema(
    "SwapBestPath",
    """Q = P, but at each step the largest score and that of the state path[t] change places.

    NaN is passed over, but at the start: nothing is above it.""",
    inputs=[blob("P", FLOAT, "T K"), blob("path", DataType.INT32, "T", role=Role.INDEX, doc="each in [0, K)")],
    outputs=[blob("Q", like="P")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("SwapBestPath", [[1.0, 5.0, 3.0], [4.0, 0.0, 2.0]], [2, 0])
    array([[1., 3., 5.],
           [4., 0., 2.]], dtype=float32)
    """,
)


def best(scores: Array, axis: int) -> Array:
    """Return the first place of the largest score along an axis; NaN is passed over, but at the start."""
    first = np.take(scores, [0], axis=axis)
    return np.where(np.isnan(first), 0, np.where(np.isnan(scores), -np.inf, scores)).argmax(axis=axis)


def check_states(op: OpView, P: TensorSpec) -> None:
    """Check that there are states, as far as that is known."""
    if P.dims is not None:
        op.require(P.dims[0] == 0 or P.dims[1] != 0, f"P has {P.dims[0]} steps without states")


@VITERBI_PATH.infer
def viterbi_path_infer(op: OpView, P: TensorSpec, A: TensorSpec) -> TensorSpec:
    del A
    check_states(op, P)
    return TensorSpec((None if P.dims is None else P.dims[0],), DataType.INT32)


@VITERBI_PATH.cost
def viterbi_path_cost(op: OpView, P: TensorSpec, A: TensorSpec, path: TensorSpec) -> Cost:
    del op
    return streamed((P, A), (path,), flops=2 * P.size * A.shape[0])


@kernel(VITERBI_PATH)
def viterbi_path(P: Array, A: Array, path: Array) -> None:
    T, K = P.shape
    before = np.zeros((T, K), np.int64)
    score = P[0] if T > 0 else np.zeros(K, P.dtype)
    for t in range(1, T):
        ways = score[:, None] + A
        before[t] = best(ways, 0)
        score = P[t] + np.take_along_axis(ways, before[t][None], axis=0)[0]
    for t in range(T - 1, -1, -1):
        path[t] = best(score, 0) if t == T - 1 else before[t + 1][path[t + 1]]


@SWAP_BEST_PATH.infer
def swap_best_path_infer(op: OpView, P: TensorSpec, path: TensorSpec) -> TensorSpec:
    del path
    check_states(op, P)
    return P


@SWAP_BEST_PATH.cost
def swap_best_path_cost(op: OpView, P: TensorSpec, path: TensorSpec, Q: TensorSpec) -> Cost:
    del op
    return streamed((P, path), (Q,), flops=P.size)


@kernel(SWAP_BEST_PATH)
def swap_best_path(op: OpView, P: Array, path: Array, Q: Array) -> None:
    T, K = P.shape
    require_within(op, "path", path, 0, K, "states count from 0")
    Q[...] = P
    if T > 0:
        steps, largest = list(range(T)), best(P, 1)
        Q[steps, path], Q[steps, largest] = P[steps, largest], P[steps, path]
