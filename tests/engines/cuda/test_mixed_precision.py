"""Products or activations in 16 bits, weights in float32: trainings on a CUDA device beside those of the CPU."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import device_option
from tazza.models import Model, layers, sgd
from tazza.models.loss_scale import LossScale, add_scaled_gradients
from tazza.models.mixed_precision import in_sixteen_bits
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


DIGITS, BATCH, STEPS = 300, 15, 30
"""How many images there are to learn from and as many to be tested on, how many a step sees, and how many steps."""


def digits(size: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return square images (N, 1, size, size) of ten patterns under noise, and which pattern each is."""
    random = np.random.default_rng(8)
    patterns = random.standard_normal((10, 1, 7, 7)).repeat(size // 7, 2).repeat(size // 7, 3)
    label = random.integers(0, 10, 2 * DIGITS).astype(np.int32)
    noise = 0.5 * random.standard_normal((2 * DIGITS, 1, size, size))
    return (0.3 * (patterns[label] + noise)).astype(np.float32), label


@functools.cache
def accuracy_after(name: str, activations: str, place: Place, type: str) -> float:
    """Return the part of right answers that a classifier gives, in float32, with what it has learned."""
    classifier = CLASSIFIERS[name]
    scaling = LossScale(1024.0) if activations == "float16" else None
    sizes: dict[str, Any] = {"size": 28, "channels": 1, "classes": 10}
    images, label = digits(sizes["size"])
    model = classifier.training(scaling=scaling, activations=activations, **sizes)
    sgd(model, 0.02, momentum=0.9)
    workspace, net = started(model, place, {DATA: images[:BATCH], LABEL: label[:BATCH]}, type)
    for step in range(STEPS):
        seen = np.arange(step * BATCH, (step + 1) * BATCH) % DIGITS
        workspace.feed(DATA, images[seen], place)
        workspace.feed(LABEL, label[seen], place)
        net.run()
    tested, judge = classifier.inference(**sizes), Workspace()
    for one in tested.parameters.values():
        judge.feed(str(one.blob), workspace.fetch(str(one.blob)))
        assert workspace.fetch(str(one.blob)).dtype == np.float32
    judge.feed(DATA, images[DIGITS:])
    judge.run_net_once(tested.net.proto)
    right: NDArray[np.bool_] = judge.fetch("softmax").argmax(1) == label[DIGITS:]
    return float(right.mean())


@pytest.mark.slow
@pytest.mark.parametrize(("activations", "type"), [("float16", "simple"), ("bfloat16", "plan")])
def test_activations_of_16_bits_learn_as_well(activations: str, type: str) -> None:
    """LeNet, to the same accuracy within one percent."""
    wide = accuracy_after("lenet", "float32", CPUPlace(), "simple")
    assert wide > 0.9
    assert accuracy_after("lenet", activations, DEVICE, type) == pytest.approx(wide, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("activations", "type"), [("float16", "plan"), ("bfloat16", "simple")])
def test_a_small_resnet_loses_as_in_float32(activations: str, type: str) -> None:
    """A bottleneck with its shortcut and normalizations, over a few steps."""
    images, label = digits(14)
    losses: list[list[float]] = []
    for place in (DEVICE, CPUPlace()):
        narrow = activations if place == DEVICE else "float32"
        scaling = LossScale(1024.0) if narrow == "float16" else None
        sizes: dict[str, Any] = {"size": 14, "channels": 1, "classes": 10, "width": 0.25, "blocks": [1]}
        model = CLASSIFIERS["resnet50"].training(scaling=scaling, activations=narrow, **sizes)
        sgd(model, 0.05, momentum=0.9)
        workspace, net = started(model, place, {DATA: images[:BATCH], LABEL: label[:BATCH]}, type)
        losses.append([])
        for _ in range(4):
            net.run()
            losses[-1].append(float(workspace.fetch(LOSS)))
    np.testing.assert_allclose(losses[0], losses[1], rtol=TOLERANCE["f16" if activations == "float16" else "bf16"])
    assert losses[0][3] < losses[0][0]


@pytest.mark.parametrize("type", ["simple", "plan"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_step_of_a_small_net_is_that_of_float32(dtype: str, type: str) -> None:
    """Normalization, convolution, pooling, dropout that keeps all, a shortcut: losses and what is learned.

    Nothing in it jumps: the largest of numbers that are alike is another one in 16 bits.
    """
    random = np.random.default_rng(5)
    fed = {DATA: random.standard_normal((4, 3, 6, 6)).astype("f"), LABEL: np.array([0, 1, 2, 0], np.int32)}
    found: list[tuple[float, dict[str, Any]]] = []
    for place, narrow in ((CPUPlace(), None), (DEVICE, dtype)):
        model = Model("small")
        x = layers.conv(model, DATA, "conv", 3, 4, 3, pad=1)
        y = model.net.add("Tanh", layers.spatial_bn(model, x, "normal", 4, is_test=False), "active")
        y = model.net.add("Sum", [x, y], "sum")
        y, _ = model.net.add(
            "Dropout", layers.average_pool(model, y, "pool", 2, stride=2), ["kept", "mask"], ratio=0.0, is_test=0
        )
        scores = layers.fc(model, y, "scores", 4 * 3 * 3, 3)
        if narrow is not None:
            scores = in_sixteen_bits(model, scores, narrow)
        _, loss = layers.softmax_with_loss(model, scores, LABEL, ["P", LOSS])
        model.add_gradients([loss])
        sgd(model, 0.1)
        workspace, net = started(model, place, fed, type)
        net.run()
        learned = {name: workspace.fetch(name) for name in model.parameters}
        found.append((float(workspace.fetch(LOSS)), learned))
    assert found[1][0] == pytest.approx(found[0][0], rel=TOLERANCE["f16" if dtype == "float16" else "bf16"])
    for name, value in found[0][1].items():
        np.testing.assert_allclose(found[1][1][name], value, atol=2e-3 if dtype == "float16" else 2e-2, err_msg=name)


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
