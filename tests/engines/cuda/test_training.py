"""Nets on a CUDA device: training gives the numbers of the CPU, by each type of net; feeds, and wrong ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tazza.device import device_option
from tazza.errors import NumericError, TazzaError
from tazza.graph.backward import backward_pass
from tazza.nets import NetBase
from tazza.operator import operator_def
from tazza.proto import DeviceOption, NetDef
from tazza.tensor import CPUPlace, CUDAPlace, Place, Tensor
from tazza.tensor.serialization import deserialize, serialize
from tazza.workspace import Workspace
from tests.cuda_there import why_no_device

DEVICE = CUDAPlace(0)
TYPES = ("simple", "async_scheduling", "dag", "plan")
SIZES = (7, 5, 3)
"""Of inputs, of the hidden layer, of classes."""


def parameters(place: Place) -> NetDef:
    """Return the net that draws parameters."""
    net = NetDef(name="parameters", device_option=device_option(place))
    for k, (inner, outer) in enumerate(itertools.pairwise(SIZES)):
        for type, name, shape in (("XavierFill", "W", [outer, inner]), ("ConstantFill", "b", [outer])):
            made = operator_def(type, [], [f"{name}{k}"], shape=shape)
            made.device_option.MergeFrom(DeviceOption(random_seed=k + 1))
            net.op.add().CopyFrom(made)
    return net


def training(place: Place, type: str) -> NetDef:
    """Return a net that trains two layers by momentum."""
    net = NetDef(name="training", type=type, device_option=device_option(place))
    net.op.extend(
        [
            operator_def("FC", ["X", "W0", "b0"], ["h"]),
            operator_def("Relu", ["h"], ["h"]),
            operator_def("FC", ["h", "W1", "b1"], ["scores"]),
            operator_def("SoftmaxWithLoss", ["scores", "label"], ["P", "loss"]),
            operator_def("Accuracy", ["P", "label"], ["accuracy"]),
        ]
    )
    backward, gradients = backward_pass(net.op, ["loss"])
    net.op.extend(backward)
    for name in ("W0", "b0", "W1", "b1"):
        given = [str(gradients[name]), f"{name}_m", "rate", name]
        net.op.add().CopyFrom(operator_def("MomentumSGDUpdate", given, [given[0], given[1], name], momentum=0.9))
    net.external_output.extend(["loss", "accuracy"])
    return net


def trained(place: Place, type: str) -> tuple[list[Any], list[Any]]:
    """Return losses, and parameters, of some steps."""
    random, workspace = np.random.default_rng(3), Workspace()
    workspace.run_net_once(parameters(place))
    for name in ("W0", "b0", "W1", "b1"):
        workspace.feed(f"{name}_m", np.zeros_like(workspace.fetch(name)), place)
    workspace.feed("rate", np.array([0.1], np.float32), place)
    net: NetBase | None = None
    losses: list[Any] = []
    for _ in range(6):
        workspace.feed("X", random.standard_normal((11, SIZES[0])).astype(np.float32), place)
        workspace.feed("label", random.integers(0, SIZES[-1], 11).astype(np.int32), place)
        net = workspace.create_net(training(place, type)) if net is None else net
        net.run()
        losses.append((workspace.fetch("loss"), workspace.fetch("accuracy")))
    found = [workspace.fetch(name) for name in ("W0", "b0", "W1", "b1")]
    assert workspace.blob("W0").tensor().place == place
    return losses, found


@pytest.mark.slow
@pytest.mark.parametrize("type", TYPES)
def test_training_gives_the_numbers_of_the_cpu(type: str) -> None:
    losses, found = trained(DEVICE, type)
    wanted_losses, wanted = trained(CPUPlace(), "simple")
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-5)
    for one, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6)


def test_a_net_goes_on_after_a_wrong_label() -> None:
    workspace = Workspace()
    net = NetDef(name="loss", device_option=device_option(DEVICE))
    net.op.add().CopyFrom(operator_def("SoftmaxWithLoss", ["X", "label"], ["P", "loss"]))
    X = np.zeros((2, 3), np.float32)
    workspace.feed("X", X, DEVICE)
    workspace.feed("label", np.array([0, 3], np.int32), DEVICE)
    made = workspace.create_net(net)
    with pytest.raises(NumericError, match="a label that is no class"):
        made.run()
    workspace.feed("label", np.array([0, 2], np.int32), DEVICE)
    made.run()
    assert workspace.fetch("loss") == pytest.approx(np.log(3))


def test_what_is_fed_stays_where_it_lies_and_a_feed_that_fails_changes_nothing() -> None:
    workspace, first = Workspace(), np.arange(6, dtype=np.float32)
    workspace.feed("X", first, DEVICE)
    held = workspace.blob("X").tensor()
    address = held.address
    workspace.feed("X", first + 1, DEVICE)
    assert (workspace.blob("X").tensor(), held.address) == (held, address)
    np.testing.assert_array_equal(workspace.fetch("X"), first + 1)
    for wrong in ("text", np.array(["a"], object), np.array([object()])):
        for name in ("X", "new"):
            with pytest.raises(TazzaError):
                workspace.feed(name, wrong, DEVICE)
    with pytest.raises(TazzaError):
        workspace.feed("X", first, CUDAPlace(63))
    np.testing.assert_array_equal(workspace.fetch("X"), first + 1)
    assert not workspace.has_blob("new")
    workspace.feed("X", first[:3].astype(np.int64), DEVICE)
    np.testing.assert_array_equal(workspace.fetch("X"), [0, 1, 2])
    workspace.feed("X", first)
    np.testing.assert_array_equal(workspace.fetch("X"), first)


def test_a_blob_of_the_device_is_stored_and_read() -> None:
    workspace, values = Workspace(), np.arange(6, dtype=np.float32).reshape(2, 3)
    workspace.feed("X", values, DEVICE)
    again = deserialize(serialize(workspace.blob("X"), "X")).value
    assert isinstance(again, Tensor)
    np.testing.assert_array_equal(again.plain(), values)


def test_copies_between_host_and_device() -> None:
    workspace, values = Workspace(), np.arange(6, dtype=np.float32)
    workspace.feed("X", values)
    net = NetDef(name="copies", device_option=device_option(DEVICE))
    net.op.extend(
        [
            operator_def("CopyCPUToGPU", ["X"], ["there"]),
            operator_def("Relu", ["there"], ["there"]),
            operator_def("CopyGPUToCPU", ["there"], ["back"]),
            operator_def("EnsureCPUOutput", ["there"], ["again"]),
        ]
    )
    workspace.run_net_once(net)
    assert workspace.blob("there").tensor().place == DEVICE
    for name in ("back", "again"):
        assert workspace.blob(name).tensor().place.is_host
        np.testing.assert_array_equal(workspace.fetch(name), values)


def lenet(place: Place, type: str, batch: int) -> tuple[NetDef, NetDef]:
    """Return the nets that draw the parameters of LeNet, and that train it."""
    shapes = {"W1": [20, 1, 5, 5], "W2": [50, 20, 5, 5], "W3": [500, 800], "W4": [10, 500]}
    start = NetDef(name="parameters", device_option=device_option(place))
    for k, (name, shape) in enumerate(shapes.items()):
        made = operator_def("XavierFill", [], [name], shape=shape)
        made.device_option.MergeFrom(DeviceOption(random_seed=k + 1))
        start.op.add().CopyFrom(made)
        start.op.add().CopyFrom(operator_def("ConstantFill", [], [name.replace("W", "b")], shape=shape[:1]))
    net = NetDef(name="lenet", type=type, device_option=device_option(place))
    net.op.extend(
        [
            operator_def("Conv", ["X", "W1", "b1"], ["c1"], kernel=5),
            operator_def("MaxPool", ["c1"], ["p1"], kernel=2, stride=2),
            operator_def("Conv", ["p1", "W2", "b2"], ["c2"], kernel=5),
            operator_def("MaxPool", ["c2"], ["p2"], kernel=2, stride=2),
            operator_def("FC", ["p2", "W3", "b3"], ["h"]),
            operator_def("Relu", ["h"], ["h"]),
            operator_def("FC", ["h", "W4", "b4"], ["scores"]),
            operator_def("Softmax", ["scores"], ["P"]),
            operator_def("LabelCrossEntropy", ["P", "label"], ["losses"]),
            operator_def("AveragedLoss", ["losses"], ["loss"]),
        ]
    )
    backward, gradients = backward_pass(net.op, ["loss"])
    net.op.extend(backward)
    for name in [*shapes, *(name.replace("W", "b") for name in shapes)]:
        net.op.add().CopyFrom(operator_def("WeightedSum", [name, "one", str(gradients[name]), "step"], [name]))
    net.external_output.append("loss")
    return start, net


@pytest.mark.slow
@pytest.mark.parametrize("type", TYPES)
def test_lenet_gives_the_numbers_of_the_cpu(type: str) -> None:
    """On the fake device one step of two images, three where they may be recorded; on a real one twenty of 64."""
    there = why_no_device() is None
    steps, batch = (20, 64) if there else (3 if type == "plan" else 1, 2)
    found: list[list[float]] = []
    for place in (DEVICE, CPUPlace()):
        random, workspace = np.random.default_rng(3), Workspace()
        start, net = lenet(place, type if place == DEVICE else "simple", batch)
        workspace.run_net_once(start)
        workspace.feed("one", np.array([1], np.float32), place)
        workspace.feed("step", np.array([-0.01], np.float32), place)
        losses: list[float] = []
        made = None
        for _ in range(steps):
            label = random.integers(0, 10, batch).astype(np.int32)
            X = 0.3 * random.standard_normal((batch, 1, 28, 28)).astype(np.float32)
            for k, one in enumerate(label):
                X[k, 0, 2 * one : 2 * one + 6, 4:20] += 1
            workspace.feed("X", X, place)
            workspace.feed("label", label, place)
            made = workspace.create_net(net) if made is None else made
            made.run()
            losses.append(float(workspace.fetch("loss")))
        found.append([*losses, *workspace.fetch("W1").reshape(-1), *workspace.fetch("W4").reshape(-1)])
    np.testing.assert_allclose(found[0], found[1], rtol=2e-4, atol=2e-5)
    assert not there or found[0][steps - 1] < 0.8 * found[0][0], "it learns"
