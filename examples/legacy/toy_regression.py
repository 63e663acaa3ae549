"""Toy regression: two nets of operators, no model; finds the weights that made the data.

python toy_regression.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace


def main(steps: int = 100) -> dict[str, Any]:
    """Train; return what it began with, all losses, and what it found."""
    workspace.ResetWorkspace()
    seeded = core.DeviceOption(caffe2_pb2.CPU, random_seed=1701)

    init_net = core.Net("init")
    with core.DeviceScope(seeded):
        w = init_net.UniformFill([], "W", shape=[1, 2], min=-1.0, max=1.0)
        b = init_net.ConstantFill([], "B", shape=[1], value=0.0)
        w_gt = init_net.GivenTensorFill([], "W_gt", shape=[1, 2], values=[2.0, 1.5])
        b_gt = init_net.GivenTensorFill([], "B_gt", shape=[1], values=[0.5])
    one = init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    iteration = init_net.ConstantFill([], "ITER", shape=[1], value=0, dtype=core.DataType.INT64)

    train_net = core.Net("train")
    with core.DeviceScope(seeded):
        x = train_net.GaussianFill([], "X", shape=[64, 2], mean=0.0, std=1.0)
        noise = train_net.GaussianFill([], "noise", shape=[64, 1], mean=0.0, std=0.01)
    y_gt = x.FC([w_gt, b_gt], "Y_gt")
    y_noise = y_gt.Add(noise, "Y_noise")
    y_noise = y_noise.StopGradient([], "Y_noise")
    y_pred = x.FC([w, b], "Y_pred")
    dist = train_net.Sqr(train_net.Sub([y_pred, y_noise], "difference"), "dist")
    loss = dist.AveragedLoss([], ["loss"])
    gradients = train_net.AddGradientOperators([loss])
    train_net.Iter(iteration, iteration)
    rate = train_net.LearningRate(iteration, "LR", base_lr=-0.1, policy="step", stepsize=20, gamma=0.9)
    train_net.WeightedSum([w, one, gradients[w], rate], w)
    train_net.WeightedSum([b, one, gradients[b], rate], b)

    workspace.RunNetOnce(init_net)
    workspace.CreateNet(train_net)
    found: dict[str, Any] = {"W": workspace.FetchBlob("W"), "losses": []}
    for _ in range(steps):
        workspace.RunNet(train_net.Proto().name)
        found["losses"].append(workspace.FetchBlob("loss"))
    found["X"] = workspace.FetchBlob("X")
    found.update(W_found=workspace.FetchBlob("W"), B_found=workspace.FetchBlob("B"))
    print("found W", found["W_found"], "B", found["B_found"], "of", workspace.FetchBlob("W_gt"), np.float32(0.5))
    return found


if __name__ == "__main__":
    main()
