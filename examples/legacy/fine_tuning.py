"""Fine-tuning: a saved model gets a new last layer, which alone is trained.

    python fine_tuning.py FOLDER

FOLDER holds `init_net.pb` and `predict_net.pb`, as `mnist.py` leaves them. The new task: is a picture bright
at the top?
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, optimizer, workspace


def read_net(path: str) -> Any:
    """Read a net."""
    net = caffe2_pb2.NetDef()
    with open(path, "rb") as file:
        net.ParseFromString(file.read())
    return net


def cut_last_layer(net: Any, name: str) -> Any:
    """Return the net up to the layer that makes a blob."""
    kept = [op for op in net.op if name not in op.output and name not in op.input]
    del net.op[:], net.external_output[:]
    net.op.extend(kept)
    used = {blob for op in kept for blob in op.input}
    inputs = [blob for blob in net.external_input if blob in used]
    del net.external_input[:]
    net.external_input.extend(inputs)
    return net


def some_images(count: int) -> tuple[Any, Any]:
    """Return pictures, and which are bright at the top."""
    random = np.random.RandomState(3)
    labels = np.arange(count, dtype=np.int32) % 2
    images = random.uniform(0, 0.5, size=(count, 1, 28, 28)).astype(np.float32)
    for image, label in zip(images, labels):  # noqa: B905 -- as of 2018
        image[:, :14] += 0.4 * label
        image[:, 14:] += 0.4 * (1 - label)
    return images, labels


def main(folder: str, steps: int = 10) -> dict[str, Any]:
    """Train the new layer; return its losses, what it began with, and whether the rest stayed."""
    workspace.ResetWorkspace()
    init_def = read_net(os.path.join(folder, "init_net.pb"))
    predict_def = cut_last_layer(read_net(os.path.join(folder, "predict_net.pb")), "pred")

    model = model_helper.ModelHelper("fine_tuned")
    model.param_init_net = model.param_init_net.AppendNet(core.Net(init_def))
    model.net = model.net.AppendNet(core.Net(predict_def))
    features = model.net.StopGradient("relu3", "features")
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU, random_seed=11)):
        scores = brew.fc(model, features, "scores", 32, 2, weight_init=("GaussianFill", {"std": 0.1}))
    softmax, loss = model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    brew.accuracy(model, [softmax, "label"], "accuracy")
    model.AddGradientOperators([loss])
    optimizer.build_adam(model, base_learning_rate=0.05)

    images, labels = some_images(16)
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob("data", images)
    workspace.FeedBlob("label", labels)
    before = workspace.FetchBlob("conv2_w")
    found: dict[str, Any] = {"scores_w": workspace.FetchBlob("scores_w"), "losses": [], "accuracies": []}
    workspace.CreateNet(model.net)
    for _ in range(steps):
        workspace.RunNet(model.net)
        found["losses"].append(workspace.FetchBlob("loss"))
        found["accuracies"].append(workspace.FetchBlob("accuracy"))
    found["trained"] = [str(param) for param in model.params]
    found["rest_stayed"] = bool((before == workspace.FetchBlob("conv2_w")).all())
    found["scores_w_after"] = workspace.FetchBlob("scores_w")
    print("loss", found["losses"][0], "->", found["losses"][-1], "accuracy", found["accuracies"][-1])
    return found


if __name__ == "__main__":
    main(sys.argv[1])
