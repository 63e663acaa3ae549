"""Every optimizer goes with every policy, and the rate stays above 0 until the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, NotFoundError
from tazza.fitting.solver import Solver
from tazza.models import OPTIMIZERS
from tazza.models.rate import rates_of
from tazza.models.zoo import CLASSIFIERS
from tazza.ops.optimizer.learning_rate import LEARNING_RATE, POLICIES
from tazza.workspace import Workspace

STEPS = 40


@pytest.mark.parametrize("policy", POLICIES.keys())
@pytest.mark.parametrize("optimizer", OPTIMIZERS.keys())
def test_every_optimizer_goes_with_every_policy(optimizer: str, policy: str) -> None:
    model = CLASSIFIERS["mlp"].training(size=2, hidden=(3,), classes=2)
    Solver(optimizer, policy=policy).add_to(model, STEPS)
    (name,) = rates_of(model.net.proto)
    (made,) = (op for op in model.net.proto.op if name in op.output)
    view = LEARNING_RATE.view(made, strict=True)
    multipliers = [POLICIES[policy](view, t) for t in range(1, STEPS)]
    assert all(0 < each < 1e3 and math.isfinite(each) for each in multipliers)
    workspace = Workspace()
    workspace.run_net_once(model.init_net.proto)
    workspace.feed("data", np.ones((2, 1, 2, 2), np.float32))
    workspace.feed("label", np.array([0, 1], np.int32))
    before = workspace.fetch("pred_w").copy()
    workspace.run_net_once(model.net.proto)
    assert not np.array_equal(workspace.fetch("pred_w"), before)


@pytest.mark.parametrize(
    ("solver", "told"),
    [
        (Solver("sgd", options={"beta1": 0.5}), "neither the optimizer 'sgd' nor a policy has 'beta1'"),
        (Solver("adam", options={"momentum": 0.5}), "nor a policy has 'momentum'"),
        (Solver("adamant"), "adam"),
        (Solver(policy="coarse"), "coarse"),
    ],
)
def test_what_an_optimizer_does_not_have(solver: Solver, told: str) -> None:
    model = CLASSIFIERS["mlp"].training(size=2, hidden=(3,), classes=2)
    with pytest.raises((ArgumentError, NotFoundError), match=told):
        solver.add_to(model, STEPS)


@pytest.mark.parametrize(
    ("given", "told"),
    [({"learning_rate": 0.0}, "not above 0"), ({"options": {"momentum": 1.0}}, "momentum 1.0")]
    + [({"options": {"momentum": value}}, "momentum") for value in ([0.5], "half", -0.1)],
)
def test_ranges_are_told_at_once(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        Solver(**given)


def test_numbers_have_the_type_that_their_argument_has() -> None:
    model = CLASSIFIERS["mlp"].training(size=2, hidden=(3,), classes=2)
    Solver(policy="step", options={"gamma": 1, "stepsize": 5, "nesterov": False}).add_to(model, STEPS)
    arguments = {each.name: each for op in model.net.proto.op for each in op.arg}
    assert arguments["gamma"].f == 1.0
    assert arguments["stepsize"].i == 5
    assert arguments["nesterov"].i == 0
