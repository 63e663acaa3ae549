"""CreateRebatchingQueue, EnqueueRebatchingQueue, DequeueRebatchingQueue, CloseRebatchingQueue.

A recorded sequence, batches that are cut anew between threads, and waits that end otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, ClosedError, RunCancelledError, ShapeError
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.ops.control.rebatching_queue import RebatchingQueue
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

MOST_S = 30.0
"""What tells that something hangs."""

CASES = [recorded("rebatching")]


@on_sequences(CASES)
def test_queues(case: Sequence) -> None:
    check_op(case)


def _beside(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def test_batches_are_cut_anew() -> None:
    """Threads put in 7 at a time and take out 4, through a queue of 5: every record once, whole, in order."""
    queue = run_op("CreateRebatchingQueue", capacity=5, num_blobs=2)
    seen: list[int] = []

    def put() -> None:
        for first in range(0, 70, 7):
            numbers = np.arange(first, first + 7)
            run_op("EnqueueRebatchingQueue", queue, numbers, np.stack([numbers, -numbers], 1), enqueue_batch=1)
        run_op("CloseRebatchingQueue", queue)

    thread, errors = _beside(put)
    while len(seen) < 70:
        numbers, pairs = run_op("DequeueRebatchingQueue", queue, outputs=2, num_elements=4)
        np.testing.assert_array_equal(pairs, np.stack([numbers, -numbers], 1))
        seen += numbers.tolist()
    thread.join(MOST_S)
    assert errors == []
    assert seen == list(range(70))
    with pytest.raises(ClosedError, match="the queue 'in0' is closed, and empty"):
        run_op("DequeueRebatchingQueue", queue, outputs=2)
    with pytest.raises(ClosedError, match="the queue 'in0' is closed"):
        run_op("EnqueueRebatchingQueue", queue, np.zeros(1), np.zeros(1))


WAITS = [
    operator_def("DequeueRebatchingQueue", ["q"], ["y"], num_elements=3),
    operator_def("EnqueueRebatchingQueue", ["q", "x"], [], enqueue_batch=1),
]


def _waiting(op: OperatorDef) -> Workspace:
    """Return a workspace in which an operator has to wait."""
    workspace = Workspace()
    workspace.run_operator(operator_def("CreateRebatchingQueue", [], ["q"], capacity=2))
    workspace.feed("x", np.arange(3))
    if op.type.startswith("Dequeue"):
        workspace.run_operator(operator_def("EnqueueRebatchingQueue", ["q", "x"], []))
    return workspace


@pytest.mark.parametrize("op", WAITS, ids=lambda op: op.type)
def test_closing_ends_a_wait(op: OperatorDef) -> None:
    workspace = _waiting(op)
    thread, errors = _beside(lambda: workspace.run_operator(op))
    while len(workspace.blob("q").get(RebatchingQueue)) != (0 if op.type.startswith("Dequeue") else 2):
        pass
    workspace.run_operator(operator_def("CloseRebatchingQueue", ["q"], []))
    thread.join(MOST_S)
    assert not thread.is_alive()
    if op.type.startswith("Dequeue"):
        np.testing.assert_array_equal(workspace.fetch("y"), [[0, 1, 2]])
    else:
        assert [type(error) for error in errors] == [ClosedError]


@pytest.mark.parametrize("op", WAITS, ids=lambda op: op.type)
def test_a_run_that_waits_can_be_cancelled(op: OperatorDef) -> None:
    workspace = _waiting(op)
    net = create_net(NetDef(name="waits", type="async_scheduling", num_workers=1, op=[op]), workspace)
    run = net.run_async()
    run.cancel()
    with pytest.raises(RunCancelledError):
        run.wait(MOST_S)
    assert len(workspace.blob("q").get(RebatchingQueue)) <= 2
    if op.type.startswith("Dequeue"):
        workspace.run_operator(operator_def("DequeueRebatchingQueue", ["q"], ["y"]))
        np.testing.assert_array_equal(workspace.fetch("y"), [[0, 1, 2]])
    net.close()


WRONG: list[tuple[list[Any], dict[str, Any], str]] = [
    ([np.zeros(2)], {}, "1 blobs for the queue 'in0' of 2"),
    ([np.zeros(2), np.array(1.0)], {"enqueue_batch": 1}, "a tensor has rank 0"),
    ([np.zeros(2), np.zeros(3)], {"enqueue_batch": 1}, "tensors have 2 and 3 rows"),
]


@pytest.mark.parametrize(("inputs", "arguments", "words"), WRONG)
def test_records_that_do_not_fit(inputs: list[Any], arguments: dict[str, Any], words: str) -> None:
    queue = run_op("CreateRebatchingQueue", num_blobs=2)
    with pytest.raises(ShapeError, match=words):
        run_op("EnqueueRebatchingQueue", queue, *inputs, outputs=0, **arguments)
    with pytest.raises(ShapeError, match="1 blobs for the queue 'in0' of 2"):
        run_op("DequeueRebatchingQueue", queue)
    with pytest.raises(ArgumentError, match="num_elements"):
        run_op("DequeueRebatchingQueue", queue, outputs=2, num_elements=0)
