"""Labels from the scores of an alphabet at each step: CTCGreedyDecoder, CTCBeamSearchDecoder.

X is (T, N, C): T steps of N sequences over an alphabet of C symbols, of which 0 is the blank. A path takes a symbol at
each step; its labels are what is left where repeated symbols are merged and blanks dropped. `lengths` says how many
steps each sequence has; without it all have T, and a sequence for which there is no length has none, as in Caffe2.

Sources: Graves et al. 2006, section 3.2; Hannun et al. 2014, algorithm 1; Caffe2.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    forbidden,
    kernel,
    schema,
)
from tazza.ops.loss.viterbi import best
from tazza.tensor import DataType, TensorSpec

BLANK = 0
NO_GRADIENT = forbidden("labels are whole numbers")
X = blob("X", FLOAT, "T N C")
LENGTHS = blob("lengths", DataType.INT32, optional=True, role=Role.INDEX, doc="steps of each sequence, at most T")

CTC_GREEDY_DECODER = schema(
    "CTCGreedyDecoder",
    """values = the labels of the path that has the highest score at each step; counts = how many a sequence has.

    Of equal scores the first one counts. NaN is passed over, but at the start: nothing is above it.""",
    inputs=[X, LENGTHS],
    outputs=[
        blob("counts", DataType.INT32, "N"),
        blob("values", DataType.INT32, dynamic=True),
    ],
    args=[arg("merge_repeated", bool, True, doc="a symbol that repeats itself is one label")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Graves et al. 2006, section 3.2; Caffe2",
    example="""
    >>> run("CTCGreedyDecoder", [[[0.1, 0.9]], [[0.2, 0.8]], [[0.7, 0.3]], [[0.4, 0.6]]])
    (array([2], dtype=int32), array([1, 1], dtype=int32))
    """,
)
CTC_BEAM_SEARCH_DECODER = schema(
    "CTCBeamSearchDecoder",
    """The `num_candidates` likeliest labels of each sequence: values one behind the other, counts and probabilities.

    After each step the `beam_width` likeliest beginnings are kept; equal ones in the order of a dictionary. Symbols of
    at most `prune_threshold` begin nothing, unless all are of that kind. Candidates that are lacking have no labels and
    the probability 0.""",
    inputs=[X, LENGTHS],
    outputs=[
        blob("counts", DataType.INT32, doc="(N * num_candidates)"),
        blob("values", DataType.INT32, dynamic=True),
        blob("probabilities", "X", optional=True, doc="(N * num_candidates)"),
    ],
    args=[
        arg("beam_width", int, 10, doc="how many beginnings are kept; none where it is not positive"),
        arg("num_candidates", int, 1, minimum=0, doc="how many labellings of each sequence are given"),
        arg("prune_threshold", float, 0.001, doc="symbols of no higher probability are passed over"),
    ],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Hannun et al. 2014, algorithm 1; Caffe2",
    example="""
    >>> run("CTCBeamSearchDecoder", [[[0.25, 0.75]], [[0.5, 0.5]]], outputs=3)
    (array([1], dtype=int32), array([1], dtype=int32), array([0.875], dtype=float32))
    """,
)


def check_symbols(op: OpView, X: TensorSpec) -> None:
    """Check that there are symbols, as far as that is known."""
    if X.dims is not None:
        op.require(X.dims[2] != 0 or 0 in X.dims[:2], f"X has {X.dims[0]} steps without symbols")


def step_counts(op: OpView, lengths: Array | None, T: int, N: int) -> Array:
    """Return how many steps each sequence has.

    Raises:
        NumericError: more than T.
    """
    if lengths is None:
        return np.full(N, T)
    own = np.zeros(N, np.int64)
    given = lengths.reshape(-1)[:N]
    own[: given.size] = np.maximum(given, 0)
    if own.max(initial=0) > T:
        n = int(own.argmax())
        raise op.error(NumericError, f"lengths[{n}] is {own[n]}, X has {T} steps")
    return own


@CTC_GREEDY_DECODER.infer
def ctc_greedy_decoder_infer(op: OpView, X: TensorSpec, lengths: TensorSpec | None) -> tuple[TensorSpec, TensorSpec]:
    del lengths
    check_symbols(op, X)
    N = None if X.dims is None else X.dims[1]
    return TensorSpec((N,), DataType.INT32), TensorSpec((None,), DataType.INT32)


@kernel(CTC_GREEDY_DECODER)
def ctc_greedy_decoder(op: OpView, X: Array, lengths: Array | None, counts: Array, values: DynamicOutput) -> None:
    T, N, C = X.shape
    path = best(X, 2) if C > 0 else np.zeros((T, N), np.int64)
    before = np.vstack([np.full((1, N), BLANK), path[:-1]])[:T]
    kept = (np.arange(int(T)).reshape(-1, 1) < step_counts(op, lengths, T, N)) & (path != BLANK)
    if op.merge_repeated:
        kept &= path != before
    counts[...] = kept.sum(axis=0)
    found = path.T[kept.T]
    values.allocate(found.shape)[...] = found


@CTC_BEAM_SEARCH_DECODER.infer
def ctc_beam_search_decoder_infer(op: OpView, X: TensorSpec, lengths: TensorSpec | None) -> tuple[TensorSpec, ...]:
    del lengths
    check_symbols(op, X)
    count = None if X.dims is None or X.dims[1] is None else X.dims[1] * op.num_candidates
    made = (TensorSpec((count,), DataType.INT32), TensorSpec((None,), DataType.INT32), TensorSpec((count,), X.dtype))
    return made[: len(op.output_letters)]


@CTC_BEAM_SEARCH_DECODER.cost
def ctc_beam_search_decoder_cost(
    op: OpView,
    X: TensorSpec,
    lengths: TensorSpec | None,
    counts: TensorSpec,
    values: TensorSpec,
    probabilities: TensorSpec | None,
) -> Cost:
    del values
    read = X.nbytes + (0 if lengths is None else lengths.nbytes)
    written = counts.nbytes + (0 if probabilities is None else probabilities.nbytes)
    return Cost(6 * X.size * max(op.beam_width, 0), read, written)


Labels = tuple[int, ...]


def likeliest(found: dict[Labels, Array], count: int) -> list[Labels]:
    """Return the `count` beginnings of the highest probability; equal ones in the order of a dictionary."""
    return sorted(found, key=lambda labels: (-found[labels].sum(), labels))[: max(count, 0)]


def beam_step(op: OpView, x: Array, beam: list[Labels], before: dict[Labels, Array]) -> dict[Labels, Array]:
    """Return the probabilities of all beginnings after one more step, x (C): those that end with a blank, and others.

    `before` has those of all that were looked at, of which those in `beam` go on; one that comes into the beam anew
    takes with it what it had when it fell out of it.
    """
    symbols = np.flatnonzero(x > np.float32(op.prune_threshold))
    kept, none = set(beam), np.zeros(2, x.dtype)
    found: dict[Labels, Array] = defaultdict(lambda: np.zeros(2, x.dtype))
    for labels in beam:
        blank, other = before[labels]
        for c in symbols if symbols.size else range(x.size):
            if c == BLANK:
                found[labels][0] += x[c] * (blank + other)
                continue
            longer, repeats = (*labels, int(c)), labels[-1:] == (c,)
            if repeats:
                found[labels][1] += x[c] * other
            found[longer][1] += x[c] * (blank if repeats else blank + other)
            if longer not in kept:
                left = before.get(longer, none)
                found[longer] += x[BLANK] * left.sum(), x[c] * left[1]
    return found


@kernel(CTC_BEAM_SEARCH_DECODER)
def ctc_beam_search_decoder(
    op: OpView,
    X: Array,
    lengths: Array | None,
    counts: Array,
    values: DynamicOutput,
    probabilities: Array | None,
) -> None:
    T, N, _ = X.shape
    chosen: list[tuple[Labels, float]] = []
    for n, steps in enumerate(step_counts(op, lengths, T, N).tolist()):
        found: dict[Labels, Array] = {}
        beam: list[Labels] = [()]
        for t in range(steps):
            found = beam_step(op, X[t, n], beam, found if t > 0 else {(): np.array([1, 0], X.dtype)})
            beam = likeliest(found, op.beam_width)
        own = [(labels, float(found[labels].sum())) for labels in likeliest(found, op.num_candidates)]
        chosen += own + [((), 0.0)] * (op.num_candidates - len(own))
    counts[...] = [len(labels) for labels, _ in chosen]
    flat = [c for labels, _ in chosen for c in labels]
    values.allocate((len(flat),))[...] = flat
    if probabilities is not None:
        probabilities[...] = [p for _, p in chosen]
