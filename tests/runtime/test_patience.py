"""How host kernels wait: until they are told, until their time is up, or until they are asked to give up."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tazza.errors import ArgumentError, DeadlineError, RunCancelledError, ShapeError
from tazza.nets import create_net
from tazza.operator import operator_def
from tazza.ops.control import blobs_queue, weighted_queue
from tazza.ops.distributed import common_world
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.holding import Conditional
from tazza.runtime.patience import Patience
from tazza.workspace import Workspace


def test_a_span_has_a_limit() -> None:
    patience, turn = Patience("for nothing"), Conditional()
    began_s = time.monotonic()
    with patience.span(0.05), turn:
        patience.wait(turn)
        with pytest.raises(DeadlineError, match=r"waited 0\.05 seconds for nothing"):
            patience.wait(turn)
    assert time.monotonic() - began_s >= 0.05
    with patience.span(), turn:
        patience.wait(turn, most_s=1e-3)


def test_the_request_to_give_up_is_for_one_span_however_it_ends() -> None:
    patience, turn = Patience("for nothing"), Conditional()
    patience.give_up()
    with pytest.raises(RunCancelledError), patience.span(), turn:
        patience.wait(turn)
    patience.give_up()
    with pytest.raises(ShapeError), patience.span():
        raise ShapeError("something else")
    with patience.span(), turn:
        patience.wait(turn, most_s=1e-3)


def worlds() -> Workspace:
    """Return a workspace with queues and a world, in which the operators below are refused."""
    made = Workspace()
    made.feed("x", np.zeros(2, np.float32))
    made.feed("bad", np.array([1, 1], np.int32))
    for op in (
        operator_def("CreateBlobsQueue", [], ["q"], num_blobs=2),
        operator_def("CreateRebatchingQueue", [], ["r"], num_blobs=2),
        operator_def("CreateCommonWorld", [], ["w"], size=1),
    ):
        made.run_operator(op)
    return made


REFUSED = [
    operator_def("EnqueueBlobs", ["q", "x"], ["x"]),
    operator_def("DequeueBlobs", ["q"], ["x"]),
    operator_def("SafeDequeueBlobs", ["q"], ["x", "s"], num_records=2),
    operator_def("WeightedSampleDequeueBlobs", ["q"], ["x", "s"]),
    operator_def("EnqueueRebatchingQueue", ["r", "x"], []),
    operator_def("DequeueRebatchingQueue", ["r"], ["x"]),
    operator_def("Broadcast", ["w", "x"], ["x"], root=1),
    operator_def("Reduce", ["w", "x"], ["y"], root=1),
    operator_def("ReduceScatter", ["w", "x", "bad"], ["x", "bad"]),
    operator_def("ReceiveTensor", ["w", "x"], ["x", "s", "t"], src=1),
]


@pytest.mark.parametrize("op", REFUSED, ids=lambda op: op.type)
def test_a_run_that_is_refused_takes_the_request_with_it(monkeypatch: pytest.MonkeyPatch, op: OperatorDef) -> None:
    workspace = worlds()
    made: list[Patience] = []

    class Noted(Patience):
        def __init__(self, what: str) -> None:
            super().__init__(what)
            made.append(self)

    for module in (blobs_queue, weighted_queue, common_world):
        monkeypatch.setattr(module, "Patience", Noted)
    net = create_net(NetDef(name="refused", type="simple", op=[op]), workspace)
    net.operators[0].cancel()
    with pytest.raises((ShapeError, ArgumentError)):
        net.run()
    (patience,) = made
    with patience.span(), (turn := Conditional()):
        patience.wait(turn, most_s=1e-3)
    net.close()
