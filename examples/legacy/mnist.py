"""MNIST from a database: a model that trains, one that tests, and a pair of files that predicts.

    python mnist.py DATABASE lmdb OUT

The database holds images of one channel in 8 bits, and labels.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, optimizer, workspace

ARG_SCOPE = {"order": "NCHW"}


def add_input(model: Any, batch_size: int, db: str, db_type: str) -> tuple[Any, Any]:
    """Read images between 0 and 1, and labels."""
    data_uint8, label = brew.db_input(
        model, blobs_out=["data_uint8", "label"], batch_size=batch_size, db=db, db_type=db_type
    )
    data = model.net.Cast(data_uint8, "data", to=core.DataType.FLOAT)
    data = model.net.Scale(data, data, scale=float(1.0 / 256))
    return model.net.StopGradient(data, data), label


def add_lenet(model: Any, data: Any) -> Any:
    """Two convolutions, two products."""
    conv1 = brew.conv(model, data, "conv1", dim_in=1, dim_out=8, kernel=5)
    pool1 = brew.max_pool(model, conv1, "pool1", kernel=2, stride=2)
    conv2 = brew.conv(model, pool1, "conv2", dim_in=8, dim_out=12, kernel=5)
    pool2 = brew.max_pool(model, conv2, "pool2", kernel=2, stride=2)
    fc3 = brew.fc(model, pool2, "fc3", dim_in=12 * 4 * 4, dim_out=32)
    relu3 = brew.relu(model, fc3, "relu3")
    pred = brew.fc(model, relu3, "pred", dim_in=32, dim_out=10)
    return brew.softmax(model, pred, "softmax")


def save_pair(model: Any, folder: str) -> None:
    """Write what predicts: `predict_net.pb`, and `init_net.pb`, which holds the parameters."""
    init_net = caffe2_pb2.NetDef(name="lenet_init")
    for param in model.params:
        array = workspace.FetchBlob(param)
        init_net.op.extend(
            [core.CreateOperator("GivenTensorFill", [], [param], shape=array.shape, values=array.flatten())]
        )
    # The input is declared as people's exporters did: by a fill of one number.
    init_net.op.extend([core.CreateOperator("ConstantFill", [], ["data"], shape=[1], value=0.0)])
    for name, net in (("init_net.pb", init_net), ("predict_net.pb", model.net.Proto())):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(net.SerializeToString())


def main(db: str, db_type: str, folder: str, steps: int = 12) -> dict[str, Any]:
    """Train, test and save; return what it began with, and all losses and accuracies."""
    workspace.ResetWorkspace(folder)
    train_model = model_helper.ModelHelper(name="mnist_train", arg_scope=ARG_SCOPE)
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU, random_seed=5)):
        data, label = add_input(train_model, batch_size=10, db=db, db_type=db_type)
        softmax = add_lenet(train_model, data)
    xent = train_model.LabelCrossEntropy([softmax, label], "xent")
    loss = train_model.AveragedLoss(xent, "loss")
    brew.accuracy(train_model, [softmax, label], "accuracy")
    train_model.AddGradientOperators([loss])
    optimizer.add_weight_decay(train_model, 1e-3)
    optimizer.build_sgd(train_model, base_learning_rate=0.1, policy="step", stepsize=5, gamma=0.9, momentum=0.9)
    train_model.Print("loss", [], to_file=1)
    for param in train_model.params:
        train_model.Summarize(param, [], to_file=1)

    test_model = model_helper.ModelHelper(name="mnist_test", arg_scope=ARG_SCOPE, init_params=False)
    data, label = add_input(test_model, batch_size=20, db=db, db_type=db_type)
    softmax = add_lenet(test_model, data)
    brew.accuracy(test_model, [softmax, label], "test_accuracy")

    deploy_model = model_helper.ModelHelper(name="mnist_deploy", arg_scope=ARG_SCOPE, init_params=False)
    add_lenet(deploy_model, "data")
    deploy_model.net.AddExternalOutput(core.BlobReference("softmax"))

    workspace.RunNetOnce(train_model.param_init_net)
    workspace.CreateNet(train_model.net, overwrite=True)
    found: dict[str, Any] = {str(param): workspace.FetchBlob(param) for param in train_model.params}
    found.update(losses=[], accuracies=[])
    for _ in range(steps):
        workspace.RunNet(train_model.net)
        found["losses"].append(workspace.FetchBlob("loss"))
        found["accuracies"].append(workspace.FetchBlob("accuracy"))
    workspace.RunNetOnce(test_model.param_init_net)
    workspace.CreateNet(test_model.net, overwrite=True)
    workspace.RunNet(test_model.net.Proto().name)
    found["test_accuracy"] = workspace.FetchBlob("test_accuracy")
    found["test_softmax"] = workspace.FetchBlob("softmax")
    found["images"] = np.array(workspace.FetchBlob("data"))
    found["log_lines"] = sorted(name for name in os.listdir(folder) if name.endswith((".log", ".summary")))
    save_pair(deploy_model, folder)
    print("loss", found["losses"][-1], "accuracy on what it learned from", found["test_accuracy"])
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
