"""Products in float16, weights in float32, a scale for the loss: trainings on a CUDA device beside those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.device import device_option
from tazza.models import Model, layers, sgd
from tazza.models.loss_scale import LossScale, add_scaled_gradients
from tazza.models.training import seed_operators
from tazza.models.zoo import CLASSIFIERS
from tazza.models.zoo.classifier import DATA, LABEL, LOSS
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import CPUPlace, CUDAPlace, Place
from tazza.workspace import Workspace
from tests.cuda_there import why_no_device

DEVICE = CUDAPlace(0)
TOLERANCE = {"f16": 2e-2, "bf16": 1e-1}
"""Relative, by the type of products: some units of its last place, after a few steps."""


def started(model: Model, place: Place, fed: dict[str, Any], type: str) -> tuple[Workspace, Any]:
    """Return a workspace with parameters and inputs there, and the net."""
    workspace = Workspace()
    for seed, net in enumerate((model.init_net.proto, model.net.proto), 1):
        net.device_option.CopyFrom(device_option(place))
        seed_operators(net, seed)
    workspace.run_net_once(model.init_net.proto)
    for name, value in fed.items():
        workspace.feed(name, value, place)
    model.net.proto.type = type if place == DEVICE else "simple"
    model.net.add_external_output(LOSS)
    return workspace, workspace.create_net(model.net.proto)


@pytest.mark.slow
@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_lenet_learns_as_in_float32(narrow: str) -> None:
    random = np.random.default_rng(3)
    fed = {
        DATA: random.standard_normal((2, 1, 28, 28)).astype(np.float32),
        LABEL: random.integers(0, 10, 2).astype(np.int32),
    }
    losses: list[list[float]] = []
    for place in (DEVICE, CPUPlace()):
        scaling = LossScale(1024.0) if place == DEVICE else None
        model = CLASSIFIERS["lenet"].training(scaling=scaling)
        sgd(model, 0.01, momentum=0.9)
        with FPMATH.override(narrow if place == DEVICE else ""):
            workspace, net = started(model, place, fed, "plan")
            losses.append([])
            for _ in range(4):
                net.run()
                losses[-1].append(float(workspace.fetch(LOSS)))
    np.testing.assert_allclose(losses[0], losses[1], rtol=TOLERANCE[narrow])
    assert losses[0][3] < losses[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("type", ["simple", "plan"])
def test_gradients_that_float16_loses_are_there_with_a_scale(type: str) -> None:
    """A loss of a hundred-millionth: what products get is below the least number of float16.

    The library may compute in float16, and need not: of small products on a real device nothing is lost.
    """
    X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    moved: dict[str, float] = {}
    for name, scaling, narrow in (("wide", None, ""), ("lost", None, "f16"), ("scaled", LossScale(2.0**20), "f16")):
        model = Model("small")
        hidden = layers.relu(model, layers.fc(model, "X", "hidden", 6, 5), "hidden")
        _, whole = layers.softmax_with_loss(model, layers.fc(model, hidden, "scores", 5, 3), "label", ["P", "whole"])
        loss = model.net.add("Scale", whole, LOSS, scale=1e-8)
        if scaling is None:
            model.add_gradients([loss])
        else:
            add_scaled_gradients(model, loss, scaling)
        sgd(model, 1.0)
        with FPMATH.override(narrow):
            workspace, net = started(model, DEVICE, {"X": X, "label": np.array([0, 1, 2, 0], np.int32)}, type)
            workspace.feed("hidden_w", 0.1 * workspace.fetch("hidden_w"), DEVICE)
            for _ in range(3):
                net.run()
            moved[name] = float(np.abs(workspace.fetch("hidden_w_grad")).max()) if type == "simple" else 0.0
            moved[name] += float(np.abs(workspace.fetch("hidden_b")).max())
    assert why_no_device() is None or moved["lost"] < 0.3 * moved["wide"]
    assert moved["scaled"] == pytest.approx(moved["wide"], rel=2e-2)


def test_half_precision_and_back() -> None:
    workspace, X = Workspace(), np.array([1.5, -0.25, 70000, 1.0004], np.float32)
    workspace.feed("X", X, DEVICE)
    net = Model("halves").net
    net.add("FloatToHalf", "X", "half")
    net.add("HalfToFloat", "half", "Y")
    net.proto.device_option.CopyFrom(device_option(DEVICE))
    workspace.run_net_once(net.proto)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(workspace.fetch("half"), X.astype(np.float16))
    np.testing.assert_array_equal(workspace.fetch("Y"), workspace.fetch("half").astype(np.float32))
