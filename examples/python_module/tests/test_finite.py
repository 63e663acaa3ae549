"""The observer."""

from __future__ import annotations

import numpy as np
import pytest

from tazza import Net, Workspace
from tazza.errors import NetError
from tazza_example import NotFinite, watch_finite


def test_it_names_who_began() -> None:
    net = Net("logs")
    net.add("Exp", net.add("Log", net.add("Relu", "x", "positive"), "logs"), "again")
    workspace = Workspace()
    workspace.feed("x", np.array([1, 2], np.float32))
    made = workspace.create_net(net.proto)
    found = watch_finite(made)
    made.run()
    assert found.first is None
    workspace.feed("x", np.array([-1, 2], np.float32))
    made.run()
    assert found.first == NotFinite("Log 'logs'", "logs")


def test_a_plan_has_no_operators_to_look_at() -> None:
    net = Net("planned")
    net.add("Relu", "x", "y")
    net.proto.type = "plan"
    workspace = Workspace()
    workspace.feed("x", np.array([1, 2], np.float32))
    made = workspace.create_net(net.proto)
    with pytest.raises(NetError, match="runs steps of its own"):
        watch_finite(made)
