"""Observers of nets and operators: time, counts and cost."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.nets import NetBase
from tazza.observers import CostObserver, RunCountObserver, TimeObserver, count_runs, observe_times, operator_costs
from tazza.operator import Cost, Operator, attach_throughout, detach_throughout, operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace


def small_net(workspace: Workspace) -> NetBase:
    """Return a net of two operators on x (2, 3) and w (4, 3)."""
    workspace.feed("x", np.ones((2, 3), np.float32))
    workspace.feed("w", np.ones((4, 3), np.float32))
    workspace.feed("b", np.zeros(4, np.float32))
    ops = [operator_def("FC", ["x", "w", "b"], ["y"]), operator_def("Relu", ["y"], ["z"])]
    return workspace.create_net(NetDef(name="small", op=ops))


def test_times_of_a_net_and_its_operators() -> None:
    net = small_net(Workspace())
    times = observe_times(net)
    for _ in range(3):
        net.run()
    assert times.net.count == 3
    assert [observer.count for observer in times.operators] == [3, 3]
    assert sum(observer.total_s for observer in times.operators) <= times.net.total_s
    assert times.net.mean_s == times.net.total_s / 3
    assert 0 < times.net.last_s <= times.net.total_s
    slowest = times.slowest()
    assert slowest[0].total_s >= slowest[1].total_s
    assert times.by_type() == {each.subject.definition.type: each.total_s for each in slowest}


def test_times_stop_and_start_again() -> None:
    net = small_net(Workspace())
    times = observe_times(net)
    net.run()
    times.reset()
    assert (times.net.count, times.net.mean_s) == (0, 0.0)
    net.run()
    times.detach()
    net.run()
    assert times.net.count == 1
    assert all(not operator.observers for operator in net.operators)


def test_a_run_that_fails_counts_too() -> None:
    workspace = Workspace()
    net = small_net(workspace)
    times, counters = observe_times(net), count_runs(net)
    workspace.feed("x", np.ones((2, 5), np.float32))
    with pytest.raises(TazzaError):
        net.run()
    assert times.net.count == 1
    assert [counter.count for counter in counters] == [1, 0]


def test_an_observer_that_comes_late_does_not_count_the_run() -> None:
    observer = TimeObserver[Operator]()
    observer.stop()
    assert observer.count == 0


def test_costs_follow_from_the_shapes_of_the_last_run() -> None:
    workspace = Workspace()
    net = small_net(workspace)
    assert [each.cost for each in operator_costs(net)] == [None, None]
    net.run()
    fc, relu = (each.cost for each in operator_costs(net))
    assert fc is not None
    assert fc.flops >= 2 * 2 * 3 * 4  # a multiplication and an addition for each weight and row
    assert relu == Cost(flops=2 * 4, bytes_read=4 * 2 * 4, bytes_written=4 * 2 * 4)
    assert workspace.fetch("z").shape == (2, 4)


def test_cost_observers_add_up_runs_of_different_shapes() -> None:
    workspace = Workspace()
    net = small_net(workspace)
    observer = CostObserver()
    net.operators[1].attach(observer)  # pyright: ignore[reportArgumentType] -- an operator's observers see that operator
    net.run()
    workspace.feed("x", np.ones((5, 3), np.float32))
    net.run()
    assert observer.count == 2
    assert observer.total.flops == (2 + 5) * 4


def test_an_observer_throughout_sees_the_operators_of_nets_within() -> None:
    workspace = Workspace()
    body = NetDef(op=[operator_def("Add", ["i", "one"], ["i"]), operator_def("LT", ["i", "limit"], ["more"])])
    for name, value in {"i": 0, "one": 1, "limit": 3}.items():
        workspace.feed(name, np.array(value, np.int32))
    workspace.feed("more", np.array(True))
    net = workspace.create_net(NetDef(op=[operator_def("While", ["more"], [], loop_net=body)]))
    counter = RunCountObserver()
    (loop,) = net.operators
    attach_throughout(loop, counter)  # pyright: ignore[reportArgumentType] -- a counter sees anything
    net.run()
    assert counter.count == 1 + 3 * 2
    detach_throughout(loop, counter)  # pyright: ignore[reportArgumentType] -- a counter sees anything
    workspace.feed("more", np.array(True))
    net.run()
    assert counter.count == 1 + 3 * 2
