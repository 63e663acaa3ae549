"""CreateBlobsQueue, EnqueueBlobs, SafeEnqueueBlobs, DequeueBlobs, SafeDequeueBlobs, CloseBlobsQueue.

Recorded sequences, queues between threads, and waits that end otherwise: closed, cancelled, timed out, interrupted.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tazza.errors import ClosedError, DeadlineError, DTypeError, RunCancelledError, SchemaError, ShapeError
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.ops.control.blobs_queue import BlobsQueue
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

MOST_S = 30.0
"""What tells that something hangs."""


CASES = [recorded("queues"), recorded("records")]


@on_sequences(CASES)
def test_queues(case: Sequence) -> None:
    check_op(case)


def _workspace(**arguments: Any) -> Workspace:
    workspace = Workspace()
    workspace.run_operator(operator_def("CreateBlobsQueue", [], ["q"], **arguments))
    return workspace


def _queue(workspace: Workspace) -> BlobsQueue:
    return workspace.blob("q").get(BlobsQueue)


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


@pytest.mark.parametrize("type", ["simple", "dag", "async_scheduling", "plan"])
def test_a_net_fills_what_another_empties(type: str) -> None:
    """Every record once, in order, whole, and in memory of its own."""
    workspace = _workspace(capacity=2, num_blobs=2)
    count = 30
    into = [
        operator_def("CountUp", ["c"], ["n"]),
        operator_def("Cast", ["n"], ["m"], to="int32"),
        operator_def("SafeEnqueueBlobs", ["q", "n", "m"], ["n", "m", "closed"]),
    ]
    out = [operator_def("SafeDequeueBlobs", ["q"], ["x", "y", "empty"]), operator_def("Copy", ["x"], ["z"])]
    workspace.run_operator(operator_def("CreateCounter", [], ["c"]))
    for name in "xyz":
        workspace.create_blob(name)
    producer = create_net(NetDef(name="into", type=type, num_workers=2, op=into), workspace)
    consumer = create_net(NetDef(name="out", type=type, num_workers=2, op=out[:1]), workspace)

    def produce() -> None:
        for _ in range(count):
            producer.run()
        _queue(workspace).close()

    thread, errors = _beside(produce)
    seen: list[tuple[int, int]] = []
    while True:
        consumer.run()
        if workspace.fetch("empty"):
            break
        seen.append((int(workspace.fetch("x")), int(workspace.fetch("y"))))
    thread.join(MOST_S)
    assert errors == []
    assert seen == [(n, n) for n in range(count)]
    producer.close()
    consumer.close()


WAITS = [
    operator_def("DequeueBlobs", ["q"], ["x"]),
    operator_def("SafeDequeueBlobs", ["q"], ["x", "s"]),
    operator_def("SafeDequeueBlobs", ["q"], ["x", "s"], num_records=3),
    operator_def("EnqueueBlobs", ["q", "x"], ["x"]),
    operator_def("SafeEnqueueBlobs", ["q", "x"], ["x", "s"]),
]


def _waiting(op: OperatorDef) -> Workspace:
    """Return a workspace in which an operator has to wait."""
    workspace = _workspace(capacity=0 if "Enqueue" in op.type else 1)
    workspace.feed("x", np.zeros(3))
    return workspace


@pytest.mark.parametrize("op", WAITS, ids=lambda op: op.type)
def test_closing_ends_a_wait(op: OperatorDef) -> None:
    workspace = _waiting(op)
    thread, errors = _beside(lambda: workspace.run_operator(op))
    workspace.run_operator(operator_def("CloseBlobsQueue", ["q"], []))
    thread.join(MOST_S)
    assert not thread.is_alive()
    if op.type.startswith("Safe"):
        assert errors == []
        assert workspace.fetch("s")
        np.testing.assert_array_equal(workspace.fetch("x"), np.zeros(3))
    else:
        assert [type(error) for error in errors] == [ClosedError]
        assert f"in operator {op.type}" in str(errors[0])


@pytest.mark.parametrize("op", WAITS, ids=lambda op: op.type)
def test_a_run_that_waits_can_be_cancelled(op: OperatorDef) -> None:
    workspace = _waiting(op)
    net = create_net(NetDef(name="waits", type="async_scheduling", num_workers=1, op=[op]), workspace)
    run = net.run_async()
    run.cancel()
    with pytest.raises(RunCancelledError):
        run.wait(MOST_S)
    workspace.run_operator(operator_def("CreateBlobsQueue", [], ["q"], capacity=3))  # and nothing of it is left
    workspace.run_operator(operator_def("EnqueueBlobs", ["q", "x"], ["x"]))
    net.close()


def test_a_deadline_ends_a_wait() -> None:
    workspace = _workspace()
    net = create_net(NetDef(name="waits", type="async_scheduling", num_workers=1, op=WAITS[:1]), workspace)
    with pytest.raises(DeadlineError):
        net.run_async(timeout_s=0.05).wait(MOST_S)
    with pytest.raises(DeadlineError, match=r"waited 0.05 seconds for the queue 'q'"):
        workspace.run_operator(operator_def("DequeueBlobs", ["q"], ["x"], timeout_secs=0.05))
    net.close()


def test_an_interrupt_ends_a_wait_and_leaves_the_queue_whole() -> None:
    workspace = _workspace()
    began = threading.Event()

    def interrupt() -> None:
        began.wait(MOST_S)
        time.sleep(0.2)  # a signal just before the system waits for a lock would be seen behind that wait alone
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def wait() -> None:
        began.set()
        workspace.run_operator(WAITS[0])

    thread, errors = _beside(interrupt)
    with pytest.raises(KeyboardInterrupt):
        wait()
    thread.join(MOST_S)
    assert errors == []
    workspace.feed("a", np.arange(3))
    workspace.run_operator(operator_def("EnqueueBlobs", ["q", "a"], ["a"]))
    workspace.run_operator(WAITS[0])
    np.testing.assert_array_equal(workspace.fetch("x"), np.arange(3))


def test_many_threads_lose_nothing() -> None:
    queue = run_op("CreateBlobsQueue", capacity=3)
    assert isinstance(queue, BlobsQueue)
    seen: list[int] = []

    def put(first: int) -> None:
        for n in range(first, first + 50):
            run_op("EnqueueBlobs", queue, np.array(n))

    def take() -> None:
        for _ in range(50):
            seen.append(int(run_op("DequeueBlobs", queue)))

    beside = [_beside(work) for work in (lambda: put(0), lambda: put(50), take, take)]
    for thread, _ in beside:
        thread.join(MOST_S)
    assert [error for _, errors in beside for error in errors] == []
    assert sorted(seen) == list(range(100))


def test_what_is_refused() -> None:
    workspace = _workspace(num_blobs=2)
    workspace.feed("a", np.zeros(1))
    workspace.feed("b", np.zeros(1))
    with pytest.raises(SchemaError, match="Y"):
        workspace.run_operator(operator_def("EnqueueBlobs", ["q", "a", "b"], ["a", "other"]))
    with pytest.raises(SchemaError, match="1 Y for 2 X"):
        workspace.run_operator(operator_def("EnqueueBlobs", ["q", "a", "b"], ["a"]))
    with pytest.raises(ShapeError, match="1 blobs for the queue 'q' of 2"):
        workspace.run_operator(operator_def("DequeueBlobs", ["q"], ["x"]))
    with pytest.raises(DTypeError, match="queue = 'a' is a Tensor"):
        workspace.run_operator(operator_def("DequeueBlobs", ["a"], ["x"]))
    with pytest.raises(ShapeError, match="1 field_names for num_blobs = 2"):
        run_op("CreateBlobsQueue", num_blobs=2, field_names=["a"])


def test_records_that_cannot_be_joined() -> None:
    for records, words in (([np.zeros(()), np.zeros(())], "rank 0"), ([np.zeros((1, 2)), np.zeros((1, 3))], "differ")):
        queue = run_op("CreateBlobsQueue", capacity=2)
        for record in records:
            run_op("EnqueueBlobs", queue, record)
        with pytest.raises(ShapeError, match=words):
            run_op("SafeDequeueBlobs", queue, outputs=2, num_records=2)


def _several(workspace: Workspace, count: int) -> Any:
    op = operator_def("SafeDequeueBlobs", ["q"], ["x", "s"], num_records=count)
    return create_net(NetDef(name="takes", type="async_scheduling", num_workers=1, op=[op]), workspace)


def _put(workspace: Workspace, value: Any) -> None:
    workspace.feed("a", value)
    workspace.run_operator(operator_def("EnqueueBlobs", ["q", "a"], ["a"]))


def test_a_wait_for_several_that_is_given_up_loses_none() -> None:
    workspace = _workspace(capacity=2)
    net = _several(workspace, 3)
    _put(workspace, np.array([1]))
    run = net.run_async()
    while len(_queue(workspace)):
        time.sleep(1e-3)
    run.cancel()
    with pytest.raises(RunCancelledError):
        run.wait(MOST_S)
    for value in (2, 3):
        _put(workspace, np.array([value]))
    net.run()
    assert workspace.fetch("x").tolist() == [1, 2, 3]
    workspace.run_operator(operator_def("CloseBlobsQueue", ["q"], []))
    net.run()
    assert workspace.fetch("s")
    net.close()


def test_several_that_cannot_be_joined_are_not_passed_over() -> None:
    """What a queue of another time held is forgotten."""
    workspace = _workspace(capacity=2)
    net = _several(workspace, 2)
    for extent in (2, 3):
        _put(workspace, np.zeros((1, extent)))
    for _ in range(2):
        with pytest.raises(ShapeError, match="differ beyond their first extent"):
            net.run()
    workspace.run_operator(operator_def("CreateBlobsQueue", [], ["q"], capacity=2))
    for value in (4, 5):
        _put(workspace, np.array([value]))
    net.run()
    assert workspace.fetch("x").tolist() == [4, 5]
    net.close()


def test_who_gets_nothing_is_told_why_the_queue_was_closed() -> None:
    """The first reason stays; what is in the queue comes before."""
    workspace = _workspace(capacity=1)
    _put(workspace, np.array([1]))
    for why in ("the disk is full", "it is late"):
        _queue(workspace).close(why)
    with pytest.raises(ClosedError, match="'q' is closed, and full: the disk is full"):
        _put(workspace, np.array([2]))
    dequeue = operator_def("DequeueBlobs", ["q"], ["x"])
    workspace.run_operator(dequeue)
    with pytest.raises(ClosedError, match="'q' is closed, and empty: the disk is full"):
        workspace.run_operator(dequeue)
