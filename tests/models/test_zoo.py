"""LeNet: the nets that genuine Caffe2 built for it, and that it learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tazza.models import Model, layers, sgd, without_debug_info, zoo
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.workspace import Workspace

FOLDER = Path(__file__).parent.parent / "data" / "interop" / "lenet_mnist"
FOR_CUDNN = {"order", "use_cudnn", "exhaustive_search", "cudnn_exhaustive_search"}
"""Arguments that brew adds everywhere and that say what holds anyway."""


def plain(net: NetDef) -> NetDef:
    """Return a net without name, preferences of engines, and places in the source."""
    made = without_debug_info(net)
    made.ClearField("name")
    for op in made.op:
        kept = [argument for argument in op.arg if argument.name not in FOR_CUDNN]
        del op.arg[:]
        op.arg.extend(kept)
        op.ClearField("engine")
    return made


def test_the_training_net_is_that_of_caffe2() -> None:
    model = Model("lenet_train")
    softmax = zoo.lenet(model, "data")
    cross_entropy = layers.label_cross_entropy(model, softmax, "label", "xent")
    model.add_gradients([layers.averaged_loss(model, cross_entropy, "loss")])
    sgd(model, 0.1, policy="step", stepsize=1, gamma=0.999)
    assert plain(model.net.proto) == plain(read_message(FOLDER / "train_net.pbtxt", NetDef))
    wanted = plain(read_message(FOLDER / "param_init_net.pbtxt", NetDef))
    repeated = len(wanted.op) - len(model.init_net.proto.op)
    del wanted.op[len(wanted.op) - repeated :]  # Caffe2 makes the blob ONE_0_0 once for each parameter
    assert plain(model.init_net.proto) == wanted


@pytest.mark.slow
def test_lenet_learns_a_batch_by_heart() -> None:
    model = Model("by_heart")
    training = zoo.lenet_training(model, zoo.pixels(model, "images"), "label")
    sgd(model, 0.02, momentum=0.9)
    model.init_net.proto.device_option.random_seed = 1
    random = np.random.default_rng(0)
    ws = Workspace()
    ws.feed("images", random.integers(0, 256, (6, 1, 28, 28), dtype=np.uint8))
    ws.feed("label", random.integers(0, 10, 6, dtype=np.int32))
    ws.run_net_once(model.init_net.proto, strict=True)
    net = ws.create_net(model.net.proto, strict=True)
    net.run()
    first = float(ws.fetch(training.loss))
    for _ in range(15):
        net.run()
    assert float(ws.fetch(training.loss)) < 0.5 * first
    assert 0 <= float(ws.fetch(training.accuracy)) <= 1


def test_a_test_net_uses_the_trained_parameters() -> None:
    train = Model("shared_train")
    zoo.lenet_training(train, "data", "label")
    test = Model("shared_test", parameters_of=train)
    zoo.lenet(test, "data")
    assert len(test.init_net.proto.op) == 0
    assert test.parameter_blobs() == train.parameter_blobs()
