"""A sparse model: clicks from lists of words, embeddings that are updated row by row, with one number of Adagrad a row.

python sparse_rowwise.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, optimizer, workspace
from caffe2.python.modeling.initializers import Initializer

WORDS, SIZE, BATCH = 50, 6, 16


def build() -> tuple[Any, Any]:
    """Return a model: the mean of the embeddings of a list, two layers, and a loss."""
    model = model_helper.ModelHelper(name="sparse")
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU, random_seed=9)):
        table = model.create_param(
            param_name="table", shape=[WORDS, SIZE], initializer=Initializer("UniformFill", min=-0.1, max=0.1)
        )
        pooled = model.net.SparseLengthsMean([table, "words", "lengths"], "pooled")
        hidden = brew.fc(model, pooled, "hidden", dim_in=SIZE, dim_out=5)
        hidden = brew.relu(model, hidden, hidden)
        scores = brew.fc(model, hidden, "scores", dim_in=5, dim_out=1)
    xent = model.net.SigmoidCrossEntropyWithLogits([scores, "click"], "xent")
    loss = model.net.AveragedLoss(xent, "loss")
    model.AddGradientOperators([loss])
    for param in model.GetOptimizationParamInfo():
        of_rows = isinstance(param.grad, core.GradientSlice)
        update = optimizer.AdagradOptimizer(alpha=0.2, epsilon=1e-3, rowWise=of_rows)
        update(model.net, model.param_init_net, param)
    return model, loss


def batch(random: Any) -> dict[str, Any]:
    """Return lists of words, their lengths, and clicks: on lists with more words of even number than of odd."""
    lengths = random.randint(1, 6, size=BATCH).astype(np.int32)
    words = random.randint(0, WORDS, size=int(lengths.sum())).astype(np.int64)
    ends = np.cumsum(lengths)
    more_even = [float((part % 2).mean() < 0.5) for part in np.split(words, ends[:-1])]
    return {"words": words, "lengths": lengths, "click": np.array(more_even, dtype=np.float32).reshape(BATCH, 1)}


def main(steps: int = 30) -> dict[str, Any]:
    """Learn; return what it began with, all losses, and what it found."""
    workspace.ResetWorkspace()
    model, loss = build()
    random = np.random.RandomState(21)
    found: dict[str, Any] = {"losses": []}
    for step in range(steps):
        for name, value in batch(random).items():
            workspace.FeedBlob(name, value)
        if step == 0:
            workspace.RunNetOnce(model.param_init_net)
            workspace.CreateNet(model.net)
            found["begun_table"] = workspace.FetchBlob("table")
        workspace.RunNet(model.net)
        found["losses"].append(workspace.FetchBlob(loss))
    found["updates"] = sorted(str(op.type) for op in model.net.Proto().op if "Adagrad" in op.type)
    found["moments"] = sorted(name for name in workspace.Blobs() if "squared_sum" in name)
    for name in [str(param) for param in model.params] + found["moments"]:
        found[f"found_{name}"] = workspace.FetchBlob(name)
    print("loss", found["losses"][0], "at first,", found["losses"][-1], "in the end")
    return found


if __name__ == "__main__":
    main()
