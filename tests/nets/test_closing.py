"""Ends of nets and of runs: closing from anywhere, runs that wait for runs, deadlines of operators that wait."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

from tazza.errors import DeadlineError, KernelError, NetError, RunCancelledError
from tazza.nets import NETS
from tazza.operator import ANY, KERNELS, SCHEMAS, Operator, blob, ends, host_kernel, kernel_key, operator_def, schema
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.patience import LONG_S

TYPES = sorted(set(NETS) - {"plan"})
"""All types but `plan`, whose loose operators are those of `simple`."""

ASKED: list[Callable[[threading.Event], object]] = []
"""What the operator `TestAsk` calls, with an event that is set when it is told to give up."""


@pytest.fixture(scope="module", autouse=True)
def operators() -> Generator[None]:
    """Have a host operator that calls the function in `ASKED`."""
    made = schema("TestAsk", "Calls.", inputs=[blob("X")], outputs=[blob("Y", like="X")], no_gradient=ends("a test"))

    class Ask:
        """A kernel that does what the test says."""

        def __init__(self, operator: Operator) -> None:
            """Wait for nothing."""
            self.told = threading.Event()

        def run(self, X: Any, Y: Any) -> None:
            """Call."""
            ASKED[0](self.told)
            Y.tensor().assign(X.tensor().plain())

        def cancel(self) -> None:
            """Give up."""
            self.told.set()

    host_kernel(made)(Ask)
    yield
    SCHEMAS.unregister("TestAsk")
    KERNELS.unregister(kernel_key("TestAsk", "reference", ANY))


def net_of(type: str, *ops: OperatorDef, workers: int = 2) -> tuple[Workspace, NetDef]:
    ws = Workspace()
    ws.feed("x", np.ones(3, np.float32))
    return ws, NetDef(name=f"{type} {len(ops)}", type=type, op=ops, num_workers=workers)


ASK = operator_def("TestAsk", ["x"], ["y"])
RELU = operator_def("Relu", ["y"], ["z"])


@pytest.mark.parametrize("type", TYPES)
def test_a_deadline_reaches_an_operator_that_waits(type: str) -> None:
    ws, definition = net_of(type, ASK, RELU)
    net = ws.create_net(definition)

    def wait(told: threading.Event) -> None:
        assert told.wait(LONG_S), "nobody asked it to give up"
        raise KernelError("gave up")

    ASKED[:] = [wait]
    with pytest.raises(DeadlineError):
        net.run(timeout_s=0.02)
    ws.reset()


@pytest.mark.parametrize("type", TYPES)
def test_a_net_is_closed_from_within_its_own_run(type: str) -> None:
    ws, definition = net_of(type, ASK, RELU)
    net = ws.create_net(definition)
    ASKED[:] = [lambda told: net.close()]
    run = net.run_async()
    assert isinstance(run.exception(LONG_S), RunCancelledError)
    with pytest.raises(NetError, match="closed"):
        net.run()


@pytest.mark.parametrize("type", TYPES)
def test_closing_waits_for_a_run_of_another_thread(type: str) -> None:
    ws, definition = net_of(type, ASK, RELU)
    net = ws.create_net(definition)
    inside, seen = threading.Event(), list[object]()

    def wait(told: threading.Event) -> None:
        inside.set()
        seen.append(told.wait(LONG_S))

    def run() -> None:
        with pytest.raises(RunCancelledError):
            net.run()

    ASKED[:] = [wait]
    thread = threading.Thread(target=run)
    thread.start()
    assert inside.wait(LONG_S)
    net.close()
    assert seen == [True], "the operator has ended"
    thread.join(LONG_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_waits_for_a_run_on_the_same_threads_ends(workers: int) -> None:
    ws, inner = net_of("async_scheduling", operator_def("Relu", ["x"], ["r"]), workers=workers)
    inside = ws.create_net(inner)
    _, outer = net_of("async_scheduling", ASK, RELU, workers=workers)
    net = ws.create_net(outer)
    ASKED[:] = [lambda told: inside.run_async().wait(LONG_S) or pytest.fail("the inner run did not end")]
    for _ in range(3):
        net.run_async().result(LONG_S)
    ws.reset()


def test_the_error_of_a_run_that_nobody_asks_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    ws, definition = net_of("async_scheduling", ASK)
    net = ws.create_net(definition)
    ended = threading.Event()

    def fail(told: threading.Event) -> None:
        raise KernelError("broken on purpose")

    ASKED[:] = [fail]
    with caplog.at_level(logging.ERROR):
        run = net.run_async()
        run.add_done_callback(lambda _: ended.set())
        assert ended.wait(LONG_S)
        del run
        net.close()
        gc.collect()
    assert "broken on purpose" in caplog.text
