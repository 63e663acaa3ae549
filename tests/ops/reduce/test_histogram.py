"""Histogram, SelfBinningHistogram, AccumulateHistogram: against one element after the other; and what is refused."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError, NumericError
from tazza.graph.text import parse_net
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.workspace import Workspace
from tests.check import Case, check_op, on_all_engines
from tests.sequences import Sequence, Step, on_sequences

Array = NDArray[Any]
EDGES = [-1.0, 0.0, 0.5, 2.0]


def counted(*blobs: Array, edges: list[float]) -> Array:
    """Return how many elements each bin has."""
    counts = [0] * (len(edges) - 1)
    for value in np.concatenate([blob.ravel() for blob in blobs]).tolist():
        for i, (low, high) in enumerate(pairwise(edges)):
            counts[i] += low <= value < high
    return np.array(counts)


def binned(count: int, *, sizes: bool = False, ratio: bool = False) -> Any:
    """Return edges, one after the other, and what lies between them."""

    def function(*blobs: Array) -> tuple[Array, Array]:
        elements = np.concatenate([blob.ravel().astype("d") for blob in blobs])
        elements = np.abs(elements) if sizes else elements
        low, high = elements.min(), elements.max() + 1e-4 * np.ptp(elements)
        steps = [i / count for i in range(count + 1)]
        edges = [low * (high / low) ** step if ratio else low + (high - low) * step for step in steps]
        return np.array(edges), np.append(counted(elements, edges=edges), 0)

    return function


LOGARITHMIC = {"num_bins": 5, "bin_spacing": "logarithmic"}
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
    Case("SelfBinningHistogram", [X], binned(3), {"num_bins": 3}),
    Case("SelfBinningHistogram", [X.astype("d"), X[0].astype("d") * 2], binned(4), {"num_bins": 4}, id="several"),
    Case("SelfBinningHistogram", [X], binned(2, sizes=True), {"num_bins": 2, "abs": 1}, id="sizes"),
    Case("SelfBinningHistogram", [np.abs(X)], binned(5, ratio=True), LOGARITHMIC, id="logarithmic"),
    Case(
        "SelfBinningHistogram",
        [np.array([-1, 0, 1, 8], "f")],
        (np.array([2, 4.0006, 8.0006]), np.array([3, 1, 0])),
        {**LOGARITHMIC, "num_bins": 2, "logspace_start": 2.0},
        slack=20,
        id="below the start",
    ),
    Case(
        "SelfBinningHistogram",
        [np.full(3, 2, "f")],
        (np.full(4, 2), np.array([3, 0, 0, 0])),
        {"num_bins": 3},
        id="all equal",
    ),
    Case("SelfBinningHistogram", [X[:0]], (np.zeros(3), np.zeros(3)), {"num_bins": 2}, id="empty"),
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


BUCKETS = {"lower_bound": 0.0, "upper_bound": 10.0, "num_buckets": 5}
SOME = np.array([-1, 0, 1, 2, 9.99, 10, 11], "f")


def accumulate(X: str, **arguments: Any) -> Any:
    """Return an operator."""
    return operator_def("AccumulateHistogram", [X], ["now", "all"], **arguments)


def step(counts: list[int], sums: list[int], X: Any, **arguments: Any) -> Step:
    """Return a step that feeds X."""
    return Step(accumulate("x", **arguments), {"now": np.array(counts), "all": np.array(sums)}, {"x": np.array(X, "f")})


SEQUENCES = [
    Sequence("buckets", (step([1, 2, 1, 0, 0, 1, 2], [1, 2, 1, 0, 0, 1, 2], SOME, **BUCKETS),), stored=True),
    Sequence("one bucket", (step([1, 1, 5], [1, 1, 5], SOME),), stored=True),
    Sequence("infinity", (step([1, 0, 1], [1, 0, 1], [np.inf, -np.inf]),), stored=True),
    Sequence("nothing", (step([0, 0, 0], [0, 0, 0], np.zeros((2, 0))),), stored=True),
    Sequence("rank 0", (step([0, 1, 0], [0, 1, 0], 0.5),), stored=True),
    Sequence("bounds that cross", (step([5, 0, 2], [5, 0, 2], SOME, lower_bound=10.0, upper_bound=0.0),), stored=True),
    Sequence(
        "NaN",
        (
            Step(
                accumulate("x", **BUCKETS),
                feeds={"x": np.array([1, np.nan], "f")},
                fails=NumericError,  # Caffe2 ends the process
                text=r"X\[1\] is NaN",
            ),
        ),
    ),
]


@on_sequences(SEQUENCES)
def test_accumulated(case: Sequence) -> None:
    check_op(case)


def test_it_counts_on() -> None:
    """An operator counts what it has seen itself, whatever its blob holds."""
    workspace = Workspace()
    net = parse_net("net: counts", "in: x", "now, all = AccumulateHistogram(x; num_buckets=2)")
    workspace.feed("x", np.array([0.25, 0.75, 7], "f"))
    workspace.create_net(net)
    for round in range(1, 4):
        workspace.run_net("counts")
        np.testing.assert_array_equal(workspace.fetch("now"), [0, 1, 1, 1])
        np.testing.assert_array_equal(workspace.fetch("all"), [0, round, round, round])
        workspace.feed("all", np.zeros(4, np.int64))


MISSING: list[tuple[str, Any, dict[str, Any], type[Exception], str]] = [
    ("SelfBinningHistogram", X, {}, ArgumentError, "num_bins = 0, it must be at least 1"),
    ("SelfBinningHistogram", X, {"num_bins": 2, "bin_spacing": "cubic"}, ArgumentError, "bin_spacing"),
    ("SelfBinningHistogram", X, {"num_bins": 2, "logspace_start": 0.0}, ArgumentError, "logspace_start = 0"),
    ("SelfBinningHistogram", X.astype("i"), {"num_bins": 2}, DTypeError, "X is int32"),
    ("AccumulateHistogram", X, {"num_buckets": 0}, ArgumentError, "num_buckets"),
    ("AccumulateHistogram", X.astype("d"), {}, DTypeError, "X is float64, it must be float32"),
]


@pytest.mark.parametrize(("type", "X", "args", "error", "text"), MISSING)
def test_others_refused(type: str, X: Any, args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, X, outputs=2, **args)


@pytest.mark.parametrize("type", ["SelfBinningHistogram", "AccumulateHistogram"])
def test_counts_have_no_gradient(type: str) -> None:
    with pytest.raises(GradientError, match="counts are whole numbers"):
        gradient_for_op(find_schema(type).view(operator_def(type, ["x"], ["a", "b"], num_bins=2)), ["da", "db"])
