"""CTCGreedyDecoder, CTCBeamSearchDecoder: against all paths there are; and what is refused."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
GREEDY, BEAM = "CTCGreedyDecoder", "CTCBeamSearchDecoder"


def chances(*shape: int) -> Array:
    """Return float32 probabilities over the last axis, the same in every run."""
    powers = np.exp(np.random.default_rng(sum(shape)).standard_normal(shape))
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def labels_of(path: tuple[int, ...]) -> tuple[int, ...]:
    """Return what is left of a path."""
    return tuple(symbol for symbol, _ in groupby(path) if symbol)


def greedy(X: Array, lengths: Array | None = None) -> tuple[Array, Array]:
    """Return the labels of the likeliest symbol at each step."""
    T, N, _ = X.shape
    steps = [T] * N if lengths is None else lengths.tolist()
    found = [
        labels_of(tuple(max(range(len(x)), key=x.__getitem__) for x in X[:s, n].tolist())) for n, s in enumerate(steps)
    ]
    return np.array([len(one) for one in found], np.int32), np.array([c for one in found for c in one], np.int32)


def of_all_paths(X: Array, lengths: Array | None = None, count: int = 1) -> tuple[Array, Array, Array]:
    """Return the likeliest labels by the sums over all their paths."""
    T, N, C = X.shape
    best: list[tuple[tuple[int, ...], float]] = []
    for n, steps in enumerate([T] * N if lengths is None else lengths.tolist()):
        sums: Counter[tuple[int, ...]] = Counter()
        for path in product(range(C), repeat=steps):
            sums[labels_of(path)] += float(np.prod([X[t, n, c] for t, c in enumerate(path)], dtype=np.float64))  # pyright: ignore[reportArgumentType]
        best += sums.most_common(count)
    counts = np.array([len(one) for one, _ in best], np.int32)
    return counts, np.array([c for one, _ in best for c in one], np.int32), np.array([p for _, p in best])


def without_chances(X: Array, lengths: Array) -> tuple[Array, Array]:
    """Return the first two of these."""
    return of_all_paths(X, lengths)[:2]


X = chances(5, 2, 3)
STEPS = np.array([3, 5], "i")
CASES = [
    Case(GREEDY, [X], greedy),
    Case(GREEDY, [X, STEPS], greedy, id="lengths"),
    Case(
        GREEDY,
        [np.eye(3, dtype="f")[[[1], [1], [0], [1], [2], [2]]]],
        (np.array([5], "i"), np.array([1, 1, 1, 2, 2], "i")),
        {"merge_repeated": False},
        id="repeated",
    ),
    Case(GREEDY, [X[:0]], (np.zeros(2, "i"), np.zeros(0, "i")), id="no steps"),
    Case(GREEDY, [X[:, :0]], (np.zeros(0, "i"), np.zeros(0, "i")), id="no sequences"),
    Case(BEAM, [X], of_all_paths, {"beam_width": 1000}, outputs=3, slack=10),
    Case(BEAM, [X, STEPS], without_chances, {"beam_width": 1000}, id="two outputs"),
    Case(
        BEAM,
        [X, STEPS],
        partial(of_all_paths, count=4),
        {"beam_width": 1000, "num_candidates": 4, "prune_threshold": 0.0},
        outputs=3,
        slack=10,
        id="candidates",
    ),
    Case(BEAM, [X[:0]], (np.zeros(2, "i"), np.zeros(0, "i"), np.zeros(2)), outputs=3, id="no steps"),
    Case(BEAM, [X], (np.zeros(0, "i"), np.zeros(0, "i")), {"num_candidates": 0}, id="no candidates"),
    Case(BEAM, [X], (np.zeros(2, "i"), np.zeros(0, "i"), np.zeros(2)), {"beam_width": 0}, outputs=3, id="no beam"),
]


@on_all_engines(CASES)
def test_ctc_decoder(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(
    ("width", "counts", "values", "probabilities"),
    [(1, [1, 2], [1, 1, 2], [0.218875, 0.077875]), (2, [2, 1], [2, 1, 1], [0.22875, 0.218875])],
)
def test_a_narrow_beam(width: int, counts: list[int], values: list[int], probabilities: list[float]) -> None:
    """Beginnings outside of the beam are lost, but for what they had when they come back: numbers of Caffe2."""
    x = np.array([[0.6, 0.25, 0.15], [0.5, 0.2, 0.3], [0.1, 0.6, 0.3], [0.25, 0.5, 0.25]], "f")[:, None]
    found = run_op(BEAM, x, beam_width=width, num_candidates=2, outputs=3)
    assert (found[0].tolist(), found[1].tolist()) == (counts, values)
    np.testing.assert_allclose(found[2], probabilities, rtol=1e-5)


def test_symbols_that_are_passed_over() -> None:
    """Those of at most the threshold; all are taken where there is no other."""
    x = np.array([[[0.25, 0.5, 0.25]]], "f")
    for threshold, p in ((0.25, 0.5), (0.5, 0.5)):
        counts, values, found = run_op(BEAM, x, num_candidates=2, prune_threshold=threshold, outputs=3)
        rest = 0.25 if threshold == 0.5 else 0
        assert (counts[0], values[0], found.tolist()) == (1, 1, [p, rest])


def test_a_sequence_without_a_length_has_no_steps() -> None:
    for type, number in ((GREEDY, 2), (BEAM, 2)):
        counts = run_op(type, X, np.array([5], "i"), outputs=number)[0]
        assert counts[0] > 0
        assert counts[1] == 0


def test_what_is_no_number() -> None:
    """It is passed over, but at the start."""
    x = np.array([[[np.nan, 1, 2]], [[0, np.nan, 2]]], "f")
    assert [part.tolist() for part in run_op(GREEDY, x)] == [[1], [2]]


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    (GREEDY, [X[0]], {}, ShapeError, "X has"),
    (GREEDY, [X[..., :0]], {}, ShapeError, "X has 5 steps without symbols"),
    (GREEDY, [X, np.array([3, 6], "i")], {}, NumericError, r"lengths\[1\] is 6, X has 5 steps"),
    (GREEDY, [X, STEPS.astype(np.int64)], {}, DTypeError, "lengths is int64"),
    (BEAM, [X[..., :0]], {}, ShapeError, "X has 5 steps without symbols"),
    (BEAM, [X, np.array([6, 3], "i")], {}, NumericError, r"lengths\[0\] is 6, X has 5 steps"),
    (BEAM, [X], {"num_candidates": -1}, ArgumentError, "'num_candidates' = -1 is below its minimum 0"),
    (BEAM, [X.astype("d")], {}, DTypeError, "X is float64"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
