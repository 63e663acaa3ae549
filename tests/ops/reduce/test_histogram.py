"""Histogram: against one element after the other; and what is refused."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
EDGES = [-1.0, 0.0, 0.5, 2.0]


def counted(*blobs: Array, edges: list[float]) -> Array:
    """Return how many elements each bin has."""
    counts = [0] * (len(edges) - 1)
    for value in np.concatenate([blob.ravel() for blob in blobs]).tolist():
        for i, (low, high) in enumerate(pairwise(edges)):
            counts[i] += low <= value < high
    return np.array(counts)


X = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
ODD = np.array([np.nan, np.inf, -np.inf, -1, 0, 0.5, 2], np.float32)
BY = partial(counted, edges=EDGES)
CASES = [
    Case("Histogram", [X], BY, {"bin_edges": EDGES}),
    Case("Histogram", [X, X[0], ODD], BY, {"bin_edges": EDGES}, id="several"),
    Case("Histogram", [X.astype(np.float64)], BY, {"bin_edges": EDGES}, id="float64"),
    Case("Histogram", [ODD], np.array([3, 2]), {"bin_edges": [-np.inf, 0.25, np.inf]}, id="to infinity"),
    Case("Histogram", [X[:0]], np.zeros(3), {"bin_edges": EDGES}, id="empty"),
    Case("Histogram", [np.array(0.25, "f")], np.array([0, 1, 0]), {"bin_edges": EDGES}, id="rank 0"),
]


@on_all_engines(CASES)
def test_histogram(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Any], list[float], type[Exception], str]] = [
    ([X], [1.0], ArgumentError, "greater than or equal to 2, not 1"),
    ([X], [0.0, 0.0], ArgumentError, r"bin_edges\[1\] = 0 is not above bin_edges\[0\] = 0"),
    ([X], [0.0, 1.0, 0.5], ArgumentError, r"bin_edges\[2\]"),
    ([X.astype(int)], EDGES, DTypeError, "X"),
    ([X, X.astype(float)], EDGES, DTypeError, "X"),
]


@pytest.mark.parametrize(("inputs", "edges", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], edges: list[float], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Histogram", *inputs, bin_edges=edges)
