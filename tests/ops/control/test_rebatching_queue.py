"""CreateRebatchingQueue, EnqueueRebatchingQueue, DequeueRebatchingQueue, CloseRebatchingQueue.

A recorded sequence, batches that are cut anew between threads, and waits that end otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import ArgumentError, ClosedError, RunCancelledError, ShapeError
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.ops.control.rebatching_queue import Batch, RebatchingQueue
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.patience import Patience
from tazza.workspace import Workspace
from tests.check import check_op
from tests.nets.interrupting import FAST, everywhere
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


@settings(max_examples=100, deadline=None)
@given(data=st.data(), capacity=st.integers(1, 9), whole=st.booleans())
def test_records_keep_their_order_whatever_the_batches(data: st.DataObject, capacity: int, whole: bool) -> None:
    """Batches of any sizes go in, of other sizes come out, some by several columns: first in, first out."""
    queue = run_op("CreateRebatchingQueue", capacity=capacity, num_blobs=2)
    assert isinstance(queue, RebatchingQueue)
    inside: list[int] = []
    number = 0
    for _ in range(data.draw(st.integers(1, 12))):
        room = capacity - len(inside)
        rows = data.draw(st.integers(0, room))
        if rows and (whole or data.draw(st.booleans())):
            columns = np.arange(number, number + rows), np.arange(2 * rows).reshape(rows, 2) + 2 * number
            run_op("EnqueueRebatchingQueue", queue, *columns, enqueue_batch=1)
        else:
            rows = min(room, 1)
            if rows:
                run_op("EnqueueRebatchingQueue", queue, np.array(number), np.array([2 * number, 2 * number + 1]))
        inside += range(number, number + rows)
        number += rows
        assert len(queue) == len(inside)
        if inside:
            count = data.draw(st.integers(1, len(inside)))
            found: Any = run_op("DequeueRebatchingQueue", queue, num_elements=count, outputs=2)
            assert found[0].tolist() == inside[:count]
            assert found[1].tolist() == [[2 * one, 2 * one + 1] for one in inside[:count]]
            del inside[:count]


@pytest.mark.slow
def test_interrupts_leave_the_queue_whole(soak: int) -> None:
    """What is inside follows on each other, and is as much as is counted, wherever Ctrl-C came."""
    queue, patience = RebatchingQueue(7, 1), Patience("for a test")
    number = 0

    def work() -> None:
        nonlocal number
        queue.write(Batch((np.arange(number, number + 3),), 3), patience)
        number += 3
        for count in (1, 2):
            queue.read(count, patience)

    def check() -> None:
        nonlocal number
        inside = [int(one) for batch in queue._batches for one in batch.columns[0]]  # pyright: ignore[reportPrivateUsage]
        assert inside == list(range(inside[0], inside[0] + len(inside))) if inside else True
        assert len(queue) == len(inside)
        if inside:
            queue.read(len(inside), patience)
        number = 0

    everywhere(work, check, FAST, soak)


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
