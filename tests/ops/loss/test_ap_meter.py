"""APMeter: one sample after the other, over several runs of a net; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

Array = NDArray[Any]
X = np.random.default_rng(3).random((7, 2)).astype(np.float32)
LABEL = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [1, 0], [0, 1], [0, 1]], np.int32)


def precision(samples: list[tuple[float, int]]) -> float:
    """Return the mean precision at the ones of samples in falling order."""
    found = [sum(label for _, label in samples[: k + 1]) / (k + 1) for k, (_, own) in enumerate(samples) if own == 1]
    return sum(found) / max(len(found), 1)


def kept(before: list[tuple[float, int]], scores: Array, labels: Array, size: int) -> list[tuple[float, int]]:
    """Return what is kept of one class, in falling order."""
    came = list(zip(scores.tolist(), labels.tolist(), strict=True))[-size:]
    room = max(0, size - len(came))
    return sorted(before[max(0, len(before) - room) :] + came, key=lambda sample: -sample[0])


def meter(**arguments: Any) -> Any:
    """Return the operator."""
    return operator_def("APMeter", ["x", "l"], ["ap"], **arguments)


WHOLE = np.array([precision(kept([], X[:, d], LABEL[:, d], 99)) for d in range(2)], np.float32)
LAST = np.array([precision(kept([], X[:, d], LABEL[:, d], 4)) for d in range(2)], np.float32)
CASES = [
    Sequence(
        "first runs",
        (
            Step(meter(), {"ap": WHOLE}, feeds={"x": X, "l": LABEL}),
            Step(meter(buffer_size=7), {"ap": WHOLE}),
            Step(meter(buffer_size=4), {"ap": LAST}),
            Step(meter(buffer_size=0), {"ap": np.zeros(2, "f")}),
            Step(meter(), {"ap": np.zeros(2, "f")}, feeds={"l": LABEL * 0}),
            Step(
                meter(),
                {"ap": np.full(2, 0.5, "f")},
                feeds={"x": X[:4] * 0, "l": np.array([[0, 0], [1, 1]] * 2, "i")},
            ),
            Step(meter(), {"ap": np.zeros(2, "f")}, feeds={"x": X[:0], "l": LABEL[:0]}),
            Step(meter(), fails=ShapeError, text="4 labels for 14 scores", feeds={"x": X, "l": LABEL[:2]}),
            Step(meter(), fails=ShapeError, text="X has the rank 1", feeds={"x": X[0], "l": LABEL[0]}),
        ),
        stored=True,
        slack=1,
    ),
]


@on_sequences(CASES)
def test_ap_meter(case: Sequence) -> None:
    check_op(case)


def runs(batches: list[tuple[Array, Array]], **arguments: Any) -> list[Array]:
    """Return what each run of one net gives."""
    workspace, found = Workspace(), list[Array]()
    workspace.feed("x", batches[0][0])
    workspace.feed("l", batches[0][1])
    net = workspace.create_net(NetDef(name="meter", op=[meter(**arguments)]))
    for scores, labels in batches:
        workspace.feed("x", scores)
        workspace.feed("l", labels)
        net.run()
        found.append(workspace.fetch("ap").copy())
    return found


@pytest.mark.parametrize("size", [1, 3, 5, 8, 100])
def test_runs_of_a_net_keep_samples(size: int) -> None:
    """Where there is no room, those with the highest scores go first, as in Caffe2."""
    parts = [(X[a:b], LABEL[a:b]) for a, b in ((0, 2), (2, 7), (1, 4), (4, 5))]
    state: list[list[tuple[float, int]]] = [[], []]
    for (scores, labels), AP in zip(parts, runs(parts, buffer_size=size), strict=True):
        state = [kept(state[d], scores[:, d], labels[:, d], size) for d in range(2)]
        np.testing.assert_allclose(AP, [precision(own) for own in state], rtol=1e-6)


def test_what_caffe2_gave() -> None:
    """Four runs with room for three samples."""
    P = np.array([[0.1, 0.9], [0.5, 0.3], [0.2, 0.6], [0.8, 0.8]], "f")
    L = np.array([[0, 1], [1, 0], [1, 1], [0, 1]], "i")
    parts = [(P[a:b], L[a:b]) for a, b in ((0, 2), (2, 4), (1, 3), (0, 1))]
    np.testing.assert_array_equal(runs(parts, buffer_size=3), [[1, 1], [0.5, 1], [1, 1], [1, 1]])


def test_labels_of_other_numbers() -> None:
    """They count into the precision, which is looked at where a label is 1: numbers of Caffe2."""
    scores = np.array([[0.1], [0.2], [0.3]], "f")
    for labels, AP in (([1, 2, 1], 7 / 6), ([1, -1, 1], 2 / 3), ([2, 2, 2], 0)):
        assert run_op("APMeter", scores, np.array(labels, "i"))[0] == pytest.approx(AP, rel=1e-6)


def test_refused() -> None:
    with pytest.raises(ShapeError, match="X has 1 classes, before it had 2"):
        runs([(X, LABEL), (X[:, :1].copy(), LABEL[:, :1].copy())])
    with pytest.raises(ArgumentError, match="'buffer_size' = -3 is below its minimum 0"):
        run_op("APMeter", X, LABEL, buffer_size=-3)
    with pytest.raises(DTypeError, match="l"):
        run_op("APMeter", X, LABEL.astype(np.int64))
