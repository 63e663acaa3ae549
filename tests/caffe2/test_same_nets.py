"""A training net that an old script built runs as the one that tazza's own names build, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from caffe2.python import _optimizer_base, brew, model_helper, optimizer
from caffe2.python import workspace as old_workspace
from caffe2.python._extension_workspace import home
from caffe2.python.models import resnet, shufflenet
from tazza import Model, Workspace, sgd
from tazza.nets.simple import SimpleNet
from tazza.proto import NetDef

BATCH = 4


def by_old_names(name: str) -> tuple[NetDef, NetDef]:
    """Build a small LeNet as scripts did."""
    _optimizer_base._optimizer_instance_count.clear()  # pyright: ignore[reportPrivateUsage]
    model = model_helper.ModelHelper(name)
    conv1 = brew.conv(model, "data", "conv1", 1, 6, 5)
    pool1 = brew.max_pool(model, conv1, "pool1", kernel=2, stride=2)
    relu1 = brew.relu(model, brew.fc(model, pool1, "fc1", 6 * 12 * 12, 16), "relu1")
    scores = brew.fc(model, relu1, "scores", 16, 10)
    _, loss = model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, 0.1, momentum=0.9)
    return model.net.Proto(), model.param_init_net.Proto()


def by_own_names(name: str) -> tuple[NetDef, NetDef]:
    """Build it by tazza."""
    model = Model(name)
    pool1 = model.max_pool(model.conv("data", "conv1", 1, 6, 5), "pool1", 2, stride=2)
    relu1 = model.relu(model.fc(pool1, "fc1", 6 * 12 * 12, 16), "relu1")
    _, loss = model.softmax_with_loss(model.fc(relu1, "scores", 16, 10), "label", ["softmax", "loss"])
    model.add_gradients([loss])
    sgd(model, 0.1, momentum=0.9)
    return model.net.proto, model.init_net.proto


def fed(workspace: Workspace, init: NetDef) -> None:
    """Make the parameters, of numbers that both nets get, and feed a batch."""
    workspace.run_net_once(init)
    random = np.random.default_rng(3)
    for op in init.op:
        if op.type == "XavierFill":
            shape: tuple[int, ...] = workspace.fetch(op.output[0]).shape
            workspace.feed(op.output[0], np.float32(random.standard_normal(shape) * 0.1))
    workspace.feed("data", random.standard_normal((BATCH, 1, 28, 28)).astype(np.float32))
    workspace.feed("label", np.arange(BATCH, dtype=np.int32))


def trained(net: NetDef, init: NetDef) -> tuple[list[tuple[Any, ...]], list[bytes], type]:
    """Return what was chosen for each operator, and the losses of some runs as bytes."""
    workspace = Workspace()
    fed(workspace, init)
    made = workspace.create_net(net)
    losses: list[bytes] = []
    for _ in range(4):
        made.run()
        losses.append(workspace.fetch("loss").tobytes())
    chosen = [(row.operator, row.outputs, row.engine, row.implementation) for row in made.explain().rows]
    return chosen, losses, type(made)


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    yield
    old_workspace.ResetWorkspace()


@pytest.mark.slow
def test_the_same_kernels_are_chosen_and_give_the_same_bits() -> None:
    old, own = trained(*by_old_names("same_old")), trained(*by_own_names("same_own"))
    assert old == own
    assert old[2] is SimpleNet


def test_a_loop_by_the_old_workspace_runs_that_net() -> None:
    net, init = by_old_names("same_loop")
    wanted = trained(net, init)[1]
    fed(home.current_workspace(), init)
    old_workspace.CreateNet(net)
    losses: list[bytes] = []
    for _ in range(4):
        old_workspace.RunNet(net.name)
        losses.append(old_workspace.FetchBlob("loss").tobytes())
    assert losses == wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["resnet", "shufflenet"])
def test_a_net_of_an_old_trainer_learns(kind: str) -> None:
    model = model_helper.ModelHelper(f"trained_{kind}")
    random = np.random.default_rng(5)
    if kind == "resnet":
        resnet.create_resnet_32x32(model, "data", 3, 1, 4)
        model.LabelCrossEntropy(["softmax", "label"], "each")
        loss = model.AveragedLoss("each", "loss")
        size = 32
    else:
        _, loss = shufflenet.create_shufflenet(model, "data", 3, 4, label="label")
        size = 224
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, 0.02)
    old_workspace.ResetWorkspace()
    colours = np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2], [-2, -2, 0]], np.float32)  # of each class
    images = random.standard_normal((4, 3, size, size)).astype(np.float32) + colours[:, :, None, None]
    old_workspace.FeedBlob("data", images)
    old_workspace.FeedBlob("label", np.arange(4, dtype=np.int32))
    for seed, op in enumerate(model.param_init_net.Proto().op, 1):
        op.device_option.random_seed = seed
    old_workspace.RunNetOnce(model.param_init_net)
    old_workspace.CreateNet(model.net)
    losses: list[float] = []
    for _ in range(6):
        old_workspace.RunNet(model.net)
        losses.append(float(old_workspace.FetchBlob(loss)))
    old_workspace.ResetWorkspace()
    assert losses[-1] < 0.9 * losses[0], losses
