"""While: rounds, and its gradient; how a deadline, a cancellation and an interrupt end a loop that has no end."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DeadlineError, GradientError, RunCancelledError, ShapeError
from tazza.graph import backward_pass
from tazza.nets import NETS
from tazza.operator import Observer, operator_def, touches
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.nested_case import Nested, on_nested
from tests.nets.nested import do_of
from tests.patience import LONG_S, wait_until

X = np.array([0.5, -1], np.float32)
COUNT = operator_def("Sub", ["n", "one"], ["n"])
LEFT = NetDef(name="left", op=[operator_def("GT", ["n", "zero"], ["c"])])


def workspace(rounds: int) -> Workspace:
    home = Workspace()
    for name, value in (("n", rounds), ("one", 1), ("zero", 0)):
        home.feed(name, np.array([value], np.int64))
    for name in ("x", "w"):
        home.feed(name, X)
    home.feed("c", np.array([True]))
    return home


def loop(*ops: OperatorDef) -> OperatorDef:
    return operator_def("While", ["c"], [], loop_net=NetDef(name="body", op=[*ops, COUNT]), cond_net=LEFT)


def number(value: int) -> NDArray[np.int64]:
    return np.array([value], np.int64)


def fed(rounds: int) -> dict[str, NDArray[Any]]:
    return {"n": number(rounds), "one": number(1), "zero": number(0), "x": X, "w": X + 1, "c": np.array([True])}


def doubled(rounds: int) -> Nested:
    op = loop(operator_def("Scale", ["x"], ["x"], scale=2.0))
    return Nested(f"{rounds} rounds", (op,), fed(rounds), {"x": X * 2**rounds, "n": number(0)})


def multiplied(rounds: int) -> Nested:
    """With 2 x w for x in each round; what all rounds read, w, gets a gradient that is added up."""
    body = NetDef(
        name="inner", op=[operator_def("Scale", ["x"], ["t"], scale=2.0), operator_def("Mul", ["t", "w"], ["x"])]
    )
    body.op.append(COUNT)
    do = do_of(body, ["x", "w", "n", "one"], ["x", "n"], "s", copy_external_blobs=True)
    whole = operator_def("While", ["c", "x", "w", "n"], ["x"], loop_net=NetDef(name="b", op=[do]), cond_net=LEFT)
    ops = (operator_def("CreateScope", [], ["s"]), whole)
    return Nested(f"{rounds} scopes", ops, fed(rounds), {"x": X * (2 * (X + 1)) ** rounds}, ("x",))


CASES = [make(rounds) for make in (doubled, multiplied) for rounds in (0, 1, 3)]


@on_nested(CASES)
def test_loops(case: Nested) -> None:
    check_op(case)


def test_a_body_may_write_the_condition() -> None:
    home = workspace(2)
    body = NetDef(name="body", op=[COUNT, LEFT.op[0]])
    home.run_operator(operator_def("While", ["c"], [], loop_net=body))
    assert home.fetch("n") == [0]


def test_what_it_touches() -> None:
    found = touches(loop(operator_def("Mul", ["x", "w"], ["y"])))
    assert found.reads == ("c", "n", "zero", "x", "w", "one")
    assert found.writes == ("c", "y", "n")
    assert found.certain == {"c"}, "there may be no round"


def test_the_condition_is_looked_at_in_each_round() -> None:
    two = operator_def("GivenTensorBoolFill", [], ["c"], shape=[2], values=[True, True])
    with pytest.raises(ShapeError, match="'c' has 2 elements"):
        workspace(1).run_operator(operator_def("While", ["c"], [], loop_net=NetDef(name="body", op=[two])))


def test_a_body_without_scopes_has_no_gradient() -> None:
    with pytest.raises(GradientError, match=r"(?s)its body is Scale, Sub, a gradient needs one Do.*put the body into"):
        backward_pass([loop(operator_def("Scale", ["x"], ["x"], scale=2.0))], ["x"])


# -- loops without end -------------------------------------------------------------------------------------------------

ENDLESS = operator_def("While", ["c"], [], loop_net=NetDef(name="body", op=[operator_def("Relu", ["x"], ["y"])]))
WITHIN = operator_def("If", ["c"], [], then_net=NetDef(name="then", op=[ENDLESS]))


@pytest.mark.parametrize("kind", sorted(NETS))
def test_a_deadline_ends_a_loop(kind: str) -> None:
    home = workspace(0)
    net = home.create_net(NetDef(name="outer", type=kind, num_workers=2, op=[WITHIN]))
    with pytest.raises(DeadlineError, match=r"'outer' did not end within 0\.05 s"):
        net.run(timeout_s=0.05)
    home.feed("c", np.array([False]))
    net.run()
    home.delete_net("outer")


@pytest.mark.parametrize("kind", ["async_scheduling", "parallel"])
def test_a_cancelled_run_ends_a_loop(kind: str) -> None:
    home = workspace(0)
    run = home.create_net(NetDef(name="outer", type=kind, num_workers=2, op=[WITHIN])).run_async()
    assert not run.wait(0.05)
    run.cancel()
    with pytest.raises(RunCancelledError):
        run.wait(LONG_S)
    home.delete_net("outer")


@pytest.mark.parametrize("kind", ["dag", "async_scheduling"])
def test_an_error_beside_a_loop_ends_it(kind: str) -> None:
    home = workspace(0)
    home.feed("three", np.ones(3, np.float32))
    fails = operator_def("Add", ["w", "three"], ["sum"])
    net = home.create_net(NetDef(name="outer", type=kind, num_workers=2, op=[WITHIN, fails]))
    with pytest.raises(ShapeError):
        net.run(timeout_s=LONG_S)
    home.delete_net("outer")


@pytest.mark.parametrize("kind", ["simple", "plan", "dag"])
def test_closing_a_net_ends_a_loop(kind: str) -> None:
    home = workspace(0)
    net = home.create_net(NetDef(name="outer", type=kind, num_workers=2, op=[WITHIN]))
    failed: list[BaseException] = []

    def run() -> None:
        try:
            net.run()
        except RunCancelledError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: net._owner is not None)  # pyright: ignore[reportPrivateUsage] -- nothing public tells of a run
    net.close()
    thread.join(LONG_S)
    assert len(failed) == 1


@pytest.mark.parametrize("kind", ["simple", "plan", "dag", "async_scheduling"])
def test_an_interrupt_ends_a_loop(kind: str) -> None:
    home = workspace(0)
    net = home.create_net(NetDef(name="outer", type=kind, num_workers=2, op=[WITHIN]))
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))

    def run() -> None:
        timer.start()  # which may take longer than the timer
        net.run()

    with pytest.raises(KeyboardInterrupt):
        run()
    timer.join()
    home.feed("c", np.array([False]))
    net.run()
    np.testing.assert_array_equal(home.fetch("y"), np.maximum(X, 0))
    home.delete_net("outer")


class Counts(Observer[object]):
    """Counts runs."""

    def __init__(self) -> None:
        self.runs = 0

    def stop(self) -> None:
        self.runs += 1


def test_operators_within_can_be_observed() -> None:
    home = workspace(3)
    net = home.create_net(NetDef(name="outer", op=[loop(operator_def("Scale", ["x"], ["x"], scale=2.0))]))
    inner = {each.name: each for each in net.operators[0].nets}
    assert inner.keys() == {"body", "left"}
    counts = Counts()
    inner["body"].operators[0].attach(counts)
    net.run()
    assert counts.runs == 3


@pytest.mark.parametrize("kind", ["simple", "plan", "dag", "async_scheduling"])
def test_a_deadline_ends_who_waits_within(kind: str) -> None:
    """An operator within a branch waits for a queue that stays empty."""
    home = workspace(0)
    home.run_operator(operator_def("CreateBlobsQueue", [], ["queue"], capacity=1, num_blobs=1))
    waits = NetDef(name="then", op=[operator_def("DequeueBlobs", ["queue"], ["record"])])
    branch = operator_def("If", ["c"], [], then_net=waits)
    net = home.create_net(NetDef(name="outer", type=kind, num_workers=2, op=[branch]))
    with pytest.raises(DeadlineError):
        net.run(timeout_s=0.05)
    home.run_operator(operator_def("EnqueueBlobs", ["queue", "x"], ["x"]))
    net.run(timeout_s=LONG_S)
    np.testing.assert_array_equal(home.fetch("record"), X)
    home.delete_net("outer")
