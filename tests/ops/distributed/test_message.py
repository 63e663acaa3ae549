"""SendTensor, ReceiveTensor between threads: in order, by source and tag; what is refused, and who waits in vain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, ClosedError, DeadlineError, DTypeError, NetError, ShapeError
from tazza.operator import operator_def
from tazza.ops.distributed import thread_world
from tazza.workspace import Workspace
from tests.check import check_op
from tests.ops.distributed.test_collective import join, together
from tests.sequences import Sequence, Step, on_sequences

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SOURCE, TAG, NEXT = (np.array(number, np.int32) for number in (0, 5, 6))
CASES = [
    Sequence(
        "to oneself",
        (
            Step(operator_def("CreateCommonWorld", [], ["w"], size=1, name="of messages")),
            Step(operator_def("SendTensor", ["w", "x"], [], dst=0, tag=5), {}, {"x": X}),
            Step(operator_def("SendTensor", ["w", "x", "d", "t"], []), {}, {"x": -X, "d": SOURCE, "t": NEXT}),
            Step(
                operator_def("ReceiveTensor", ["w", "y"], ["y", "s", "t"], src=0, tag=6),
                {"y": -X, "s": SOURCE, "t": NEXT},
                {"y": 0 * X},
            ),
            Step(
                operator_def("ReceiveTensor", ["w", "y", "s", "t"], ["y", "s", "t"]),
                {"y": X, "s": SOURCE, "t": TAG},
                {"s": np.array([0], np.int32), "t": np.array([5], np.int32)},
            ),
            Step(operator_def("SendTensor", ["w", "x"], [], dst=1), fails=ArgumentError, text="dst = 1 is not one of"),
        ),
    )
]


@on_sequences(CASES)
def test_messages(case: Sequence) -> None:
    check_op(case)


def send(home: Workspace, value: Any, **arguments: Any) -> None:
    home.feed("x", value)
    home.run_operator(operator_def("SendTensor", ["world", "x"], [], **arguments))


def receive(home: Workspace, like: Any, **arguments: Any) -> tuple[Any, int, int]:
    home.feed("y", like)
    home.run_operator(operator_def("ReceiveTensor", ["world", "y"], ["y", "s", "t"], **arguments))
    return home.fetch("y"), int(home.fetch("s")), int(home.fetch("t"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_a_ring(dtype: Any) -> None:
    def act(rank: int, home: Workspace) -> Any:
        join(home, rank, 3)
        send(home, np.full((2, 5), rank, dtype), dst=(rank + 1) % 3, tag=rank)
        return receive(home, np.zeros((2, 5), dtype), src=(rank + 2) % 3)

    for rank, (value, source, tag) in enumerate(together(3, act)):
        assert (source, tag) == ((rank + 2) % 3, (rank + 2) % 3)
        assert value.dtype == dtype
        np.testing.assert_array_equal(value, np.full((2, 5), source, dtype))


def test_tags_tell_messages_apart_and_else_they_keep_their_order() -> None:
    def act(rank: int, home: Workspace) -> Any:
        join(home, rank, 2)
        if rank:
            for number, tag in enumerate([1, 2, 1, 3]):
                send(home, np.array([number]), dst=0, tag=tag)
            return None
        return [receive(home, np.array([9]), tag=tag)[0].tolist() for tag in (2, 1, 1, -1)]

    assert together(2, act)[0] == [[1], [0], [2], [3]]


def test_what_was_sent_stays_what_it_was() -> None:
    def act(rank: int, home: Workspace) -> Any:
        join(home, rank, 2)
        if rank:
            return receive(home, 0 * X)[0]
        send(home, X, dst=1)
        home.blob("x").tensor().array[...] = 7
        return X

    sent, got = together(2, act)
    np.testing.assert_array_equal(got, sent)


def test_refused() -> None:
    def act(rank: int, home: Workspace) -> Any:
        join(home, rank, 2, timeout_ms=60_000)
        if rank:
            send(home, X, dst=0)
            send(home, X, dst=0)
            return None
        for like, text in ((X[:1], r"rank 1 sent float32\[2, 3\] for 'y'"), (X.astype(np.float64), "rank 1 sent")):
            with pytest.raises(ShapeError, match=text):
                receive(home, like)
        with pytest.raises(ArgumentError, match="src = 2 is not one of the 2 ranks"):
            receive(home, X, src=2)
        home.feed("d", np.array(1))
        with pytest.raises(DTypeError, match="dst is int64"):
            home.run_operator(operator_def("SendTensor", ["world", "y", "d"], []))
        return None

    assert together(2, act) == [None, None]


def test_nobody_waits_for_ever() -> None:
    def late(rank: int, home: Workspace) -> Any:
        join(home, rank, 2, timeout_ms=50)
        return None if rank else receive(home, X)

    assert isinstance(together(2, late)[0], DeadlineError)

    def left(rank: int, home: Workspace) -> Any:
        join(home, rank, 2)
        if rank:
            home.run_operator(operator_def("DestroyCommonWorld", ["world"], ["world"]))
            return None
        return receive(home, X)

    assert isinstance(together(2, left)[0], ClosedError)


def test_messages_that_nobody_receives_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_world, "MESSAGES_MAX", 3)
    home = Workspace()
    join(home, 0, 1)
    for number in range(3):
        send(home, number + X, dst=0, tag=4)
    with pytest.raises(NetError, match="rank 0 has not received 3 messages of rank 0 with the tag 4"):
        send(home, X, dst=0, tag=4)
    send(home, -X, dst=0, tag=5)
    for number in range(3):
        np.testing.assert_array_equal(receive(home, X)[0], number + X)
    assert receive(home, X)[2] == 5
    send(home, X, dst=0, tag=4)
