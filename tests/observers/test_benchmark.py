"""How long a run takes: a number for the net, and one for each operator."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.observers.benchmark import benchmark, mean_ms
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace

NET = NetDef(name="n", op=[operator_def("Iter", [], ["t"]), operator_def("Relu", ["x"], ["y"])])
INIT = NetDef(op=[operator_def("ConstantFill", [], ["x"], shape=[2])])


def test_warm_up_and_runs_are_counted() -> None:
    workspace = Workspace()
    workspace.feed("x", np.zeros(2, np.float32))
    net = workspace.create_net(NET)
    total, *each = benchmark(net, warm_up=2, runs=3)
    assert total > 0
    assert each == [0, 0]
    assert workspace.fetch("t").item() == 5
    total, *each = benchmark(net, warm_up=0, runs=3, each=True)
    assert workspace.fetch("t").item() == 11
    assert len(each) == 2
    assert all(0 < one for one in each)
    assert [len(operator.observers) for operator in net.operators] == [0, 0]


def test_with_an_init_net() -> None:
    assert mean_ms(NET, INIT, warm_up=0, runs=1) > 0


def test_runs_are_not_negative() -> None:
    with pytest.raises(ArgumentError, match="-1 times"):
        benchmark(Workspace().create_net(INIT), warm_up=-1, runs=1)
