"""Loss scaling: the same training, steps of zeros where something overflows, and how the scale changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.models import Model, layers, sgd
from tazza.models.loss_scale import LEAST, LossScale, add_scaled_gradients
from tazza.models.training import seed_operators
from tazza.workspace import Workspace


def built(scaling: LossScale | None, momentum: float = 0.0) -> Model:
    """Return a small classifier."""
    model = Model("scaled")
    hidden = layers.relu(model, layers.fc(model, "X", "hidden", 5, 7), "hidden")
    _, loss = layers.softmax_with_loss(model, layers.fc(model, hidden, "scores", 7, 3), "label", ["P", "loss"])
    if scaling is None:
        model.add_gradients([loss])
    else:
        add_scaled_gradients(model, loss, scaling)
    sgd(model, 0.1, momentum=momentum)
    model.net.add_external_output("loss")
    for seed, net in enumerate((model.init_net.proto, model.net.proto), 1):
        seed_operators(net, seed)
    return model


def start(model: Model, type: str) -> tuple[Workspace, Any]:
    """Return a workspace with parameters and a batch, and the net."""
    workspace, random = Workspace(), np.random.default_rng(3)
    workspace.run_net_once(model.init_net.proto)
    workspace.feed("X", random.standard_normal((11, 5)).astype(np.float32))
    workspace.feed("label", random.integers(0, 3, 11).astype(np.int32))
    model.net.proto.type = type
    return workspace, workspace.create_net(model.net.proto)


@pytest.mark.slow
@pytest.mark.parametrize("type", ["simple", "plan"])
def test_a_power_of_two_changes_no_bit_of_a_training(type: str) -> None:
    found: list[list[Any]] = []
    for scaling in (None, LossScale(1024.0, interval=2)):
        workspace, net = start(built(scaling, momentum=0.9), type)
        for _ in range(5):
            net.run()
        found.append([workspace.fetch(name) for name in ("hidden_w", "scores_b", "loss")])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("type", ["simple", "plan"])
def test_an_overflow_moves_nothing_and_halves_the_scale(type: str) -> None:
    workspace, net = start(built(LossScale(8.0, interval=2)), type)
    X, scales = workspace.fetch("X"), list[float]()
    for wrong in (False, True, False, False, True, True, True):
        before = workspace.fetch("hidden_w")
        workspace.feed("X", np.where(np.arange(5) == 2, np.inf, X).astype(np.float32) if wrong else X)
        net.run()
        scales.append(float(workspace.fetch("loss_scale")))
        assert np.array_equal(before, workspace.fetch("hidden_w")) == wrong
    assert scales == [8, 4, 4, 8, 4, 2, 1]
    net.run()
    assert workspace.fetch("loss_scale") == LEAST


@pytest.mark.parametrize("wrong", [{"initial": 0.5}, {"growth": 0.9}, {"backoff": 0.0}, {"interval": 0}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="loss scale"):
        LossScale(**wrong)
