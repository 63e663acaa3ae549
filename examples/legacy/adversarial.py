"""An adversarial image: by gradients to the input, a picture is changed until it is taken for another.

    python adversarial.py FOLDER

FOLDER holds `init_net.pb` and `predict_net.pb`, as `mnist.py` leaves them.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace


def main(folder: str, steps: int = 8, step: float = 0.02) -> dict[str, Any]:
    """Change an image; return the probability of the wanted digit at each step, and the last gradient."""
    workspace.ResetWorkspace()
    init_def, predict_def = caffe2_pb2.NetDef(), caffe2_pb2.NetDef()
    for net, name in ((init_def, "init_net.pb"), (predict_def, "predict_net.pb")):
        with open(os.path.join(folder, name), "rb") as file:
            net.ParseFromString(file.read())
    workspace.RunNetOnce(init_def)

    y, x = np.mgrid[:28, :28] - 13.5
    image = np.exp(-((np.hypot(x, y) - 7.0) ** 2) / 8.0).astype(np.float32)[np.newaxis, np.newaxis]
    workspace.FeedBlob("data", image)
    workspace.RunNetOnce(predict_def)
    probabilities = workspace.FetchBlob("softmax")[0]
    wanted = int(probabilities.argsort()[-2])

    attack = core.Net(predict_def)
    xent = attack.LabelCrossEntropy(["softmax", "wanted"], "xent")
    loss = attack.AveragedLoss(xent, "loss")
    gradients = attack.AddGradientOperators([loss])
    data_grad = str(gradients["data"])
    workspace.FeedBlob("wanted", np.array([wanted], dtype=np.int32))
    workspace.CreateNet(attack)
    found: dict[str, Any] = {"before": probabilities, "wanted": wanted, "probabilities": [], "losses": []}
    for _ in range(steps):
        workspace.RunNet(attack.Name())
        found["losses"].append(workspace.FetchBlob("loss"))
        found["probabilities"].append(workspace.FetchBlob("softmax")[0, wanted])
        found["gradient"] = workspace.FetchBlob(data_grad)
        image = np.clip(image - step * np.sign(found["gradient"]), 0.0, 1.0).astype(np.float32)
        workspace.FeedBlob("data", image)
    workspace.RunNet(attack.Name())
    found["after"] = workspace.FetchBlob("softmax")[0]
    print("taken for", probabilities.argmax(), "at first, for", found["after"].argmax(), "in the end")
    return found


if __name__ == "__main__":
    main(sys.argv[1])
