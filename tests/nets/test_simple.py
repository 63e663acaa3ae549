"""Nets: what is checked when one is made, and how `simple` runs it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tazza.errors import BlobTypeError, DuplicateError, NetError, NotFoundError, ShapeError, TazzaError
from tazza.operator import Observer, definition_hooks, operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.patience import LONG_S


def relu_net(name: str, *pairs: tuple[str, str], **fields: object) -> NetDef:
    """Return a net of Relus."""
    return NetDef(name=name, op=[operator_def("Relu", [x], [y]) for x, y in pairs], **fields)  # pyright: ignore[reportArgumentType] -- fields of the message


@pytest.fixture
def ws() -> Workspace:
    made = Workspace()
    made.feed("x", np.array([-1, 2], np.float32))
    return made


def test_runs_in_order(ws: Workspace) -> None:
    ws.run_net_once(relu_net("n", ("x", "y"), ("y", "z")))
    np.testing.assert_array_equal(ws.fetch("z"), [0, 2])


def test_inputs_must_exist(ws: Workspace) -> None:
    """behaviours.md row 5."""
    with pytest.raises(NotFoundError, match="input blob 'k' does not exist"):
        ws.create_net(relu_net("n", ("k", "y")))


def test_external_inputs_are_checked_when_there_are_some(ws: Workspace) -> None:
    """behaviours.md row 5."""
    ws.feed("k", np.zeros(2, np.float32))
    with pytest.raises(NetError, match="reads 'k', which no earlier operator makes and external_input does not list"):
        ws.run_net_once(relu_net("n", ("k", "y"), external_input=["x"]))
    ws.run_net_once(relu_net("n", ("k", "y")))
    with pytest.raises(NetError, match="declares the output 'zz', which no operator makes"):
        ws.run_net_once(relu_net("n", ("k", "y"), external_output=["zz"]))


def test_a_cycle_is_named(ws: Workspace) -> None:
    with pytest.raises(NetError, match="operator 0") as caught:
        ws.create_net(relu_net("n", ("b", "a"), ("a", "b"), external_input=["x"]))
    assert "operator 1 (Relu) makes it later: a cycle" in str(caught.value)


def test_outputs_are_made_at_once(ws: Workspace) -> None:
    """behaviours.md row 5: all output blobs exist, still without a type."""
    ws.create_net(relu_net("n", ("x", "y")))
    assert ws.has_blob("y")
    assert ws.fetch("y") == b"y, a C++ native class of type nullptr (uninitialized)."


def test_a_created_net_is_a_snapshot(ws: Workspace) -> None:
    """behaviours.md row 10: bound to blobs, not to values."""
    definition = relu_net("sn", ("e", "y"))
    ws.create_blob("e")
    ws.create_net(definition)
    definition.op.append(operator_def("Relu", ["y"], ["z"]))
    with pytest.raises(BlobTypeError, match="blob 'e' has no value"):
        ws.run_net("sn")
    ws.feed("e", np.zeros(5, np.float32))
    ws.run_net("sn")
    assert ws.fetch("y").shape == (5,)
    ws.feed("e", "text")
    with pytest.raises(BlobTypeError, match="blob 'e' holds a"):
        ws.run_net("sn")
    ws.feed("e", np.zeros(3, np.float32))
    ws.run_net("sn")
    assert ws.fetch("y").shape == (3,)
    assert not ws.has_blob("z")


def test_create_run_delete(ws: Workspace) -> None:
    """behaviours.md row 11."""
    net = relu_net("r", ("x", "x"))
    ws.run_net_once(net)
    assert ws.nets() == []
    ws.create_net(net)
    ws.run_net("r", 3)
    with pytest.raises(DuplicateError, match="net 'r' exists already"):
        ws.create_net(net)
    ws.create_net(net, overwrite=True)
    with pytest.raises(NotFoundError, match="net 'nope' does not exist"):
        ws.run_net("nope")
    assert ws.delete_net("r")
    assert not ws.delete_net("r")


def test_a_failing_net_runs_again(ws: Workspace) -> None:
    """behaviours.md row 11."""
    ws.feed("w", np.ones((3, 5), np.float32))
    ws.feed("b", np.zeros(3, np.float32))
    ws.feed("x", np.ones((2, 4), np.float32))
    ws.create_net(NetDef(name="n", op=[operator_def("Relu", ["x"], ["r"]), operator_def("FC", ["r", "w", "b"], ["y"])]))
    with pytest.raises(ShapeError) as caught:
        ws.run_net("n")
    text = str(caught.value)
    assert "operator 1 of net 'n'" in text
    assert "stopped after 1 of 2 operators; blobs are valid, parameters may be partly updated" in text
    ws.feed("x", np.ones((2, 5), np.float32))
    ws.run_net("n")
    np.testing.assert_array_equal(ws.fetch("y"), np.full((2, 3), 5.0))


def test_unknown_type_proposes_known_ones(ws: Workspace) -> None:
    """behaviours.md row 33."""
    with pytest.raises(NetError, match="unknown type 'simpel'") as caught:
        ws.create_net(relu_net("n", ("x", "y"), type="simpel"))
    assert "did you mean simple?" in str(caught.value)


def test_what_has_no_effect_is_said_once_per_net(ws: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    """behaviours.md row 7: unknown arguments and engines are kept; tazza says so, once per net."""
    op = operator_def("Relu", ["x"], ["y"], engine="CUDNN,cudn", nonsense=3, use_cudnn=1)
    net = NetDef(name="n", op=[op, op, op])
    with caplog.at_level("WARNING", logger="tazza"):
        ws.run_net_once(net)
    assert len(caplog.messages) == 2
    assert "net 'n': arguments without effect: Relu.nonsense (unknown)" in caplog.messages[0]
    passed = "asks for engine 'cudn', which is passed over (no such engine; did you mean cudnn or cuda?)"
    assert passed in caplog.messages[1]


def test_default_is_the_order_of_the_device(ws: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="tazza"):
        ws.run_operator(operator_def("Relu", ["x"], ["y"], engine="DEFAULT"))
    assert caplog.messages == []


def test_the_net_has_a_device(ws: Workspace) -> None:
    """behaviours.md row 12: a seed on the whole net reaches every operator; an operator's own fields win."""
    fill = operator_def("UniformFill", [], ["u"], shape=[3])
    net = NetDef(name="n", op=[fill, operator_def("UniformFill", [], ["v"], shape=[3])])
    net.device_option.random_seed = 7
    ws.run_net_once(net)
    np.testing.assert_array_equal(ws.fetch("u"), ws.fetch("v"))


class Recorder(Observer[object]):
    """Writes down what it sees."""

    def __init__(self, seen: list[str], name: str) -> None:
        self.seen = seen
        self.name = name

    def start(self) -> None:
        self.seen.append(f"+{self.name}")

    def stop(self) -> None:
        self.seen.append(f"-{self.name}")


class Broken(Observer[object]):
    """Fails at every start."""

    def start(self) -> None:
        raise ValueError("broken observer")


def test_observers_see_nets_and_operators(ws: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    """Facts table: attaching twice is a no-op, exceptions are logged, detaching gives the observer back."""
    net = ws.create_net(relu_net("n", ("x", "y"), ("y", "z")))
    seen: list[str] = []
    observer = Recorder(seen, "net")
    assert net.attach(observer) is observer
    net.attach(observer)
    net.operators[1].attach(Recorder(seen, "op"))
    net.operators[0].attach(Broken())
    net.run()
    assert seen == ["+net", "+op", "-op", "-net"]
    assert "broken observer" in caplog.text
    assert net.detach(observer) is observer
    assert net.detach(observer) is None


def test_run_async_gives_a_future(ws: Workspace) -> None:
    net = ws.create_net(relu_net("n", ("x", "y")))
    assert net.run_async().wait(LONG_S)
    ws.feed("x", "text")
    run = net.run_async()
    assert run.done()
    assert isinstance(run.error, BlobTypeError)
    with pytest.raises(BlobTypeError):
        run.wait()
    event = net.operators[0].run_async()
    assert isinstance(event.error, TazzaError)


def test_a_net_runs_once_at_a_time(ws: Workspace) -> None:
    net = ws.create_net(relu_net("n", ("x", "y")))
    inside, leave = threading.Event(), threading.Event()

    class Waiting(Observer[object]):
        def start(self) -> None:
            inside.set()
            leave.wait(LONG_S)

    net.attach(Waiting())
    thread = threading.Thread(target=net.run)
    thread.start()
    assert inside.wait(LONG_S)
    with pytest.raises(NetError, match="is running already"):
        net.run()
    leave.set()
    thread.join()


def test_a_hook_sees_every_operator(ws: Workspace) -> None:
    seen: list[OperatorDef] = []
    definition_hooks.append(seen.append)
    try:
        ws.create_net(relu_net("n", ("x", "y"), ("y", "z")))
    finally:
        definition_hooks.remove(seen.append)
    assert [op.output[0] for op in seen] == ["y", "z"]


def test_explain_says_who_runs(ws: Workspace) -> None:
    net = ws.create_net(NetDef(name="n", op=[operator_def("Relu", ["x"], ["y"], engine="CUDNN")]))
    assert net.explain().rows[0].engine == "not run yet"
    net.run()
    (row,) = net.explain().rows
    assert (row.choices[0].engine, row.choices[0].reason) == ("CUDNN", "no such engine")
    assert row.engine == row.choices[-1].engine
    assert "Relu" in str(net.explain())


def test_a_closed_net_does_not_run(ws: Workspace) -> None:
    net = ws.create_net(relu_net("n", ("x", "y")))
    ws.delete_net("n")
    with pytest.raises(NetError, match="net 'n' is closed"):
        net.run()
