"""WeightedSampleDequeueBlobs: drawn as Caffe2 draws, closed, cancelled, and refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError, RunCancelledError, ShapeError
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.ops.control.weighted_queue import shares
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

MOST_S = 30.0
DRAWN = [
    3,
    1,
    3,
    3,
    3,
    1,
    1,
    2,
    1,
    3,
    2,
    2,
    1,
    2,
    2,
    2,
    3,
    2,
    1,
    3,
    2,
    2,
    1,
    3,
    3,
    1,
    2,
    2,
    2,
    2,
    1,
    2,
    1,
    2,
    3,
    2,
    3,
    1,
]
"""Which of three queues Caffe2 takes with weights 1, 2, 1 and seed 5."""

CASES = [recorded("weighted_queues")]


@on_sequences(CASES)
def test_weighted_queues(case: Sequence) -> None:
    check_op(case)


def test_they_are_drawn_as_caffe2_draws() -> None:
    workspace = Workspace()
    for name, value in (("a", 1), ("b", 2), ("c", 3)):
        workspace.run_operator(operator_def("CreateBlobsQueue", [], [name], capacity=50))
        for _ in range(40):
            workspace.feed("x", np.array(value))
            workspace.run_operator(operator_def("EnqueueBlobs", [name, "x"], ["x"]))
    op = operator_def("WeightedSampleDequeueBlobs", ["a", "b", "c"], ["y", "s"], weights=[1.0, 2.0, 1.0])
    op.device_option.random_seed = 5
    net, seen = create_net(NetDef(name="draws", op=[op]), workspace), list[int]()
    for _ in DRAWN:
        net.run()
        seen.append(int(workspace.fetch("y")))
    assert seen == DRAWN
    net.close()


def test_a_run_that_waits_can_be_cancelled() -> None:
    workspace = Workspace()
    for name in "ab":
        workspace.run_operator(operator_def("CreateBlobsQueue", [], [name]))
    op = operator_def("WeightedSampleDequeueBlobs", ["a", "b"], ["y", "s"])
    net = create_net(NetDef(name="waits", type="async_scheduling", num_workers=1, op=[op]), workspace)
    run = net.run_async()
    run.cancel()
    with pytest.raises(RunCancelledError):
        run.wait(MOST_S)
    net.close()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"weights": [1.0]}, "1 weights for 2 queues"),
    ({"weights": [0.0, 0.0]}, "none is negative, not all are 0"),
    ({"weights": [2.0, -1.0]}, "none is negative, not all are 0"),
    ({"table_idx_blob": 1}, "table_idx_blob = 1, there are 1 Y"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_refused(arguments: dict[str, Any], words: str) -> None:
    queues = [run_op("CreateBlobsQueue", num_blobs=2) for _ in range(2)]
    with pytest.raises(ArgumentError, match=words):
        run_op("WeightedSampleDequeueBlobs", *queues, outputs=2, **arguments)
    with pytest.raises(ShapeError, match=r"1 blobs for the queue 'in[01]' of 2"):
        run_op("WeightedSampleDequeueBlobs", *queues, outputs=2)


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(0, float(np.finfo(np.float32).max), width=32)), min_size=1, max_size=6)
)
def test_shares_are_those_of_the_weights(weights: list[float]) -> None:
    """Whatever the weights: they rise to 1, each is as its weight, to rounding, and one of weight 0 has none."""
    if not sum(weights) > 0:
        return
    bounds = shares(weights)
    exact = np.cumsum(np.array(weights) / sum(weights))
    assert np.isfinite(bounds).all()
    np.testing.assert_allclose(bounds, exact, rtol=1e-6, atol=1e-6)
    widths = np.diff(bounds, prepend=np.float32(0))
    assert (widths[np.array(weights) == 0] == 0).all()
    assert (widths >= 0).all()


@pytest.mark.parametrize("weight", [np.inf, np.nan, -1.0])
def test_weights_that_are_no_shares_are_refused(weight: float) -> None:
    operator = operator_def("WeightedSampleDequeueBlobs", ["p", "q"], ["x", "s"], weights=[1.0, weight])
    with pytest.raises(ArgumentError, match="weights"):
        create_net(NetDef(name="n", external_input=["p", "q"], op=[operator]), Workspace())
