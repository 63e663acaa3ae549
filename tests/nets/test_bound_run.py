"""Bound runs: what runs as few calls must be what would have run operator by operator, and break where it would not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest

from tazza.device import current_context
from tazza.errors import DeadlineError, TazzaError
from tazza.nets import SimpleNet
from tazza.nets.bound_run import RUNS_FORGET, BoundRun
from tazza.operator import Observer, Operator, operator_def
from tazza.operator.bound_section import BoundSection
from tazza.operator.reorder import Refresh
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import CPUPlace
from tazza.workspace import Workspace

_numbers = count()


def net_of(ws: Workspace, *ops: OperatorDef) -> SimpleNet:
    net = ws.create_net(NetDef(name=f"bound{next(_numbers)}", op=ops))
    assert isinstance(net, SimpleNet)
    return net


def bound_run_of(net: SimpleNet) -> BoundRun:
    ((_, bound),) = net._bound_runs  # pyright: ignore[reportPrivateUsage] -- what this file is about
    return bound


def sections_of(net: SimpleNet) -> list[BoundSection]:
    found = bound_run_of(net)._sections.get(current_context(CPUPlace()))  # pyright: ignore[reportPrivateUsage] -- as above
    return [item for item in ([] if found is None else found) if isinstance(item, BoundSection)]


@pytest.fixture
def ws() -> Iterator[Workspace]:
    made = Workspace()
    random = np.random.default_rng(3)
    made.feed("x", random.standard_normal((2, 5, 8, 8)).astype(np.float32))
    made.feed("W", random.standard_normal((7, 5, 3, 3)).astype(np.float32))
    made.feed("b", random.standard_normal(7).astype(np.float32))
    yield made
    made.reset()


LAYERS = (
    operator_def("Conv", ["x", "W", "b"], ["y"], kernel=3, pad=1),
    operator_def("Relu", ["y"], ["y"]),
    operator_def("MaxPool", ["y"], ["p"], kernel=2, stride=2),
    operator_def("Relu", ["p"], ["q"]),
)


def test_native_operators_in_a_row_are_one_call(ws: Workspace) -> None:
    net = net_of(ws, *LAYERS)
    net.run()
    assert not sections_of(net), "the first run is by single steps"
    first = ws.fetch("q")
    net.run()
    (section,) = sections_of(net)
    native = [choice.engine for operator in net.operators for choice in operator.choices]
    if "reference" not in native:  # somebody may lack every compiled engine
        assert len(section.parts) == 1
    assert np.array_equal(ws.fetch("q"), first)


def test_new_values_shapes_and_tensors_reach_the_next_run(ws: Workspace) -> None:
    net = net_of(ws, *LAYERS)
    random = np.random.default_rng(5)
    for batch in (2, 2, 2, 3, 3, 1, 1, 1, 2):
        image = random.standard_normal((batch, 5, 8, 8)).astype(np.float32)
        ws.feed("x", image)
        ws.feed("W", random.standard_normal((7, 5, 3, 3)).astype(np.float32))
        net.run()
        found = ws.fetch("q")
        plain = Workspace()
        for name in ("x", "W", "b"):
            plain.feed(name, ws.fetch(name))
        for op in LAYERS:
            plain.run_operator(op)
        np.testing.assert_allclose(found, plain.fetch("q"), rtol=1e-5, atol=1e-5)


def test_observers_come_and_go(ws: Workspace) -> None:
    net = net_of(ws, *LAYERS)
    for _ in range(3):
        net.run()
    seen: list[str] = []

    class Seen(Observer[Operator]):
        def start(self) -> None:
            seen.append(self.subject.definition.type)

    observer = Seen()
    net.operators[1].attach(observer)  # pyright: ignore[reportArgumentType] -- an operator's observers see that operator
    net.run()
    net.run()
    assert seen == ["Relu", "Relu"]
    net.operators[1].detach(observer)  # pyright: ignore[reportArgumentType] -- as above
    net.run()
    assert len(seen) == 2


def test_a_section_ends_where_a_blob_has_had_another_shape() -> None:
    ws = Workspace()
    ws.feed("z", np.ones((3, 2), np.float32))
    ws.feed("x", np.zeros((2, 3), np.float32))
    ws.feed("buffer", np.zeros((2, 3), np.float32))
    net = net_of(ws, operator_def("Relu", ["x"], ["y"]), operator_def("Sigmoid", ["z"], ["x"]))
    for _ in range(4):
        ws.blob("x").tensor().share(ws.blob("buffer").tensor())
        net.run()
        assert ws.fetch("x").shape == (3, 2)


def test_a_weight_written_outside_is_reordered_before_the_next_run(ws: Workspace) -> None:
    net = net_of(ws, *LAYERS[:1])
    for _ in range(3):
        net.run()
    before = ws.fetch("y")
    ws.feed("W", 2 * ws.fetch("W"))
    ws.feed("b", 2 * ws.fetch("b"))
    net.run()
    np.testing.assert_allclose(ws.fetch("y"), 2 * before, rtol=1e-5, atol=1e-5)


def test_a_weight_that_several_read_is_reordered_once(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one thread: as in the steps of a recurrent net, each of which has a net of its own."""
    nets = [net_of(ws, *LAYERS[:1]) for _ in range(3)]
    for net in nets * 2:
        net.run()
    found = [{id(refresh) for section in sections_of(net) for _, refresh in section.refreshes} for net in nets]
    if not found[0]:
        pytest.skip("no engine here reorders the filters of this convolution")
    assert found[0] == found[1] == found[2]
    ran: list[Refresh] = []
    plain = Refresh.__call__

    def counted(refresh: Refresh) -> None:
        before = refresh.version
        plain(refresh)
        ran.extend([refresh] * (refresh.version != before))

    monkeypatch.setattr(Refresh, "__call__", counted)
    before = ws.fetch("y")
    ws.feed("W", 2 * ws.fetch("W"))
    ws.feed("b", 2 * ws.fetch("b"))
    for net in nets:
        net.run()
        np.testing.assert_allclose(ws.fetch("y"), 2 * before, rtol=1e-5, atol=1e-5)
    assert len(ran) == 1


def test_what_fails_while_weights_are_reordered_is_located(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    net = net_of(ws, *LAYERS)
    for _ in range(2):
        net.run()
    if not any(section.refreshes for section in sections_of(net)):
        pytest.skip("no engine here reorders the filters of this convolution")

    def fail(_: Refresh) -> None:
        raise ValueError("broken on purpose")

    monkeypatch.setattr(Refresh, "__call__", fail)
    with pytest.raises(TazzaError, match=r"broken on purpose[\s\S]*Conv"):
        net.run()


def test_a_stopped_run_says_how_far_it_came() -> None:
    ws = Workspace()
    ws.feed("b0", np.ones(3, np.float32))
    net = net_of(ws, *(operator_def("Relu", [f"b{i}"], [f"b{i + 1}"]) for i in range(40)))
    for _ in range(3):
        net.run()
    asked = count(1)

    def check() -> None:
        if next(asked) == 3:
            raise DeadlineError("over")

    bound = bound_run_of(net)
    with pytest.raises(DeadlineError):
        bound.run(current_context(CPUPlace()), check=check, piecewise=True)
    assert 0 < bound.done < 40


def test_changed_shapes_are_forgotten_in_time(ws: Workspace) -> None:
    net = net_of(ws, *LAYERS)
    for batch in (1, 1, 1, 2, 2, 2, 1, 1, 1):
        ws.feed("x", np.zeros((batch, 5, 8, 8), np.float32))
        net.run()
    bound = bound_run_of(net)
    assert bound.breaks > 0
    for _ in range(3 * RUNS_FORGET + 8):
        net.run()
    assert bound.breaks == 0
    assert sections_of(net)


def test_flags_of_kernels_reach_what_is_bound(ws: Workspace) -> None:
    net = net_of(ws, *LAYERS)
    for _ in range(3):
        net.run()
    with NUM_THREADS.override(1):
        net.run()
        assert all(operator.width <= 1 for operator in net.operators)
