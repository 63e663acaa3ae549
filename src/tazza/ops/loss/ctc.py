"""What labels cost without their places in time: CTC, by all paths that come to them.

X is (T, N, C): T steps of N sequences, scores of C symbols before the softmax, of which 0 is the blank. A path takes a
symbol at each step; its labels are what is left where repeated symbols are merged and blanks dropped.

With a blank before, between and behind its L labels a sequence has S = 2 L + 1 places. A path stays where it is, goes
to the next place, or passes over a blank between two labels that differ. With y the softmax of a step, u[t, s] the
probability of all ways to place s at step t, and v[t, s] that of all ways on from there:

    p = sum over s of u[t, s] v[t, s],    cost = -log p,    dcost/dX[t, c] = y[c] - sum over places s of c of u v / p

Sources: Graves et al. 2006, section 4; the operator of Caffe2's module `warpctc`, which its last packages did not have.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tazza.errors import GradientError, SchemaError
from tazza.operator import FLOAT, Array, Cost, Effects, GradientRequest, OpView, Role, arg, blob, kernel, schema
from tazza.ops.loss.ctc_decoder import BLANK
from tazza.ops.shape.axis import require_within
from tazza.ops.sparse.segment import starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

CTC = schema(
    "CTC",
    """costs = -log of the probability that a path comes to the labels; `slopes` is the gradient of their sum.

    A sequence that is too short for its labels costs 0 and has no slope. `slopes` is there unless `is_test`; the
    gradient copies it, whatever that of the costs is, as in Caffe2. `unused`
    is left empty; nets name it their workspace.""",
    inputs=[
        blob("X", FLOAT, "T N C", doc="scores"),
        blob("labels", DataType.INT32, "_", role=Role.INDEX, doc="of one sequence behind the other, each in [0, C)"),
        blob("label_lengths", DataType.INT32, "N", role=Role.INDEX, doc="labels of each sequence"),
        blob("lengths", DataType.INT32, "N", optional=True, role=Role.INDEX, doc="its steps, at most T; default: T"),
    ],
    outputs=[
        blob("slopes", "X", "T N C", optional=True, doc="absent with is_test"),
        blob("costs", "X", "N"),
        blob("unused", DataType.UINT8, "0"),
    ],
    args=[arg("is_test", int, 0, doc="not 0: costs alone")],
    effects=Effects.PURE,
    source="Graves et al. 2006, section 4; Caffe2",
    example="""
    >>> slopes, costs, unused = run("CTC", [[[0.0, 0.0]], [[0.0, 0.0]]], [1], [1], outputs=3)
    >>> np.exp(-costs).round(4), slopes.round(4).ravel()
    (array([0.75], dtype=float32), array([ 0.1667, -0.1667,  0.1667, -0.1667], dtype=float32))
    """,
)


CTC.trains_unless("is_test", "slopes")


@CTC.name_outputs
def ctc_outputs(op: OpView, count: int) -> tuple[str, ...]:
    named = ("costs", "unused") if op.is_test else ("slopes", "costs", "unused")
    if count != len(named):
        raise op.error(SchemaError, f"{count} outputs with is_test = {op.is_test}", f"they are {', '.join(named)}")
    return named


@CTC.infer
def ctc_infer(
    op: OpView, X: TensorSpec, labels: TensorSpec, label_lengths: TensorSpec, lengths: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    del labels, label_lengths, lengths
    N = None if X.dims is None else X.dims[1]
    made = (X, TensorSpec((N,), X.dtype), TensorSpec((0,), DataType.UINT8))
    return made[1:] if op.is_test else made


@CTC.cost
def ctc_cost(
    op: OpView,
    X: TensorSpec,
    labels: TensorSpec,
    label_lengths: TensorSpec,
    lengths: TensorSpec | None,
    slopes: TensorSpec | None,
    costs: TensorSpec,
    unused: TensorSpec,
) -> Cost:
    del op, lengths, unused
    ways = X.shape[0] * (2 * labels.size + X.shape[1])
    back = 0 if slopes is None else slopes.nbytes
    return Cost(10 * X.size + 20 * ways, X.nbytes + labels.nbytes + label_lengths.nbytes, costs.nbytes + back)


def ctc_gradient(g: GradientRequest) -> list[OperatorDef]:
    if g.op.is_test:
        raise GradientError("CTC with is_test makes no slopes, which are its gradient", hint="train without is_test")
    return g.emit("Copy", [g.slopes], [g.GI(0)])


CTC.gradient(ctc_gradient, copy_arguments=False)


def ways_forward(y: Array, places: Array, skips: Array) -> Array:
    """Return log u, (T, S), from logarithms y (T, C) of probabilities.

    Args:
        y: by step and symbol.
        places: the symbol of each place, (S).
        skips: whether a place can be reached over the one before it, (S).
    """
    found = np.full((len(y), places.size), -np.inf, y.dtype)
    found[0, :2] = y[0, places[:2]]
    for t in range(1, len(y)):
        stay, step, leap = found[t - 1], np.full_like(found[0], -np.inf), np.full_like(found[0], -np.inf)
        step[1:] = stay[:-1]
        leap[2:] = np.where(skips[2:], stay[:-2], -np.inf)
        found[t] = np.logaddexp(np.logaddexp(stay, step), leap) + y[t, places]
    return found


def sequence_cost(x: Array, labels: Array) -> tuple[float, Array]:
    """Return the cost of labels (L) and its derivatives by the scores x (T, C); 0 where there is no path.

    It is computed in float64: log p grows with T, and a slope has the absolute error of two of them.
    """
    y = x.astype(np.float64) - x.max(axis=1, keepdims=True)
    y -= np.log(np.exp(y).sum(axis=1, keepdims=True))
    if len(x) < max(1, labels.size + np.count_nonzero(labels[1:] == labels[:-1])):
        return 0.0, np.zeros_like(y)
    places = np.full(2 * labels.size + 1, BLANK)
    places[1::2] = labels
    skips = np.zeros(places.size, bool)
    skips[2:] = (places[2:] != BLANK) & (places[2:] != places[:-2])
    u = ways_forward(y, places, skips)
    # Backwards the same way, over places from the last: into s there is what is out of s in front.
    turned = np.zeros(places.size, bool)
    turned[2:] = skips[:1:-1]
    own: Array = y[:, places]
    v = ways_forward(y[::-1], places[::-1], turned)[::-1, ::-1] - np.where(np.isneginf(own), 0, own)
    log_p = np.logaddexp.reduce(u[-1, -2:])
    taken = np.zeros(y.T.shape)
    np.add.at(taken, places, np.exp(u + v - log_p).T)
    return -float(log_p), np.exp(y) - taken.T


@kernel(CTC)
def ctc(
    op: OpView,
    X: Array,
    labels: Array,
    label_lengths: Array,
    lengths: Array | None,
    slopes: Array | None,
    costs: Array,
) -> None:
    T, N, C = X.shape
    require_within(op, "labels", labels, 0, C, "the number of symbols is C")
    starts = starts_of(op, "label_lengths", label_lengths, labels.size, "labels")
    steps = np.full(N, T) if lengths is None else lengths
    require_within(op, "lengths", steps, 0, T + 1, "X has T steps")
    if slopes is not None:
        slopes[...] = 0
    for n, (begin, end) in enumerate(pairwise(starts)):
        costs[n], slope = sequence_cost(X[: steps[n], n], labels[begin:end])
        if slopes is not None:
            slopes[: steps[n], n] = slope
