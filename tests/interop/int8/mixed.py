"""A net of everything that becomes bytes, and how its nets of bytes are handed to Caffe2 for recording.

python -m tests.interop.int8.mixed tests/data/quantized/mixed.npz
python3.8 tools/record_quantized.py tests/data/quantized/mixed.npz
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.interop import export_nets
from tazza.interop.int8 import quantize_nets
from tazza.models import Model, layers
from tazza.models.training import seed_operators
from tazza.proto import NetDef
from tazza.workspace import Workspace

SEED = 3


def data(count: int = 6, seed: int = SEED) -> NDArray[np.float32]:
    """Return images."""
    return np.random.default_rng(seed).standard_normal((count, 3, 10, 12)).astype(np.float32)


def mixed() -> tuple[NetDef, NetDef]:
    """Return a net with normalized, depthwise and 1 x 1 convolutions, a residual sum, a join, and moves of bytes."""
    model = Model("mixed")

    def conv(x: Any, name: str, dims: tuple[int, int], kernel: int, group: int = 1) -> Any:
        y = layers.conv(model, x, name, *dims, kernel, pad=kernel // 2, group=group)
        return layers.spatial_bn(model, y, f"{name}_bn", dims[1], is_test=True)

    x = conv("data", "stem", (3, 8), 3)
    x = layers.relu(model, x, x)
    deep = conv(x, "deep", (8, 8), 3, group=8)
    deep = layers.relu(model, deep, deep)
    total = layers.sum(model, [conv(deep, "point", (8, 8), 1), x], "sum")
    total = layers.relu(model, total, total)
    net = model.net
    net.add("Concat", [total, deep], ["joined", "extents"], order="NCHW")
    net.add("Dropout", ["joined"], ["dropped", "mask"], is_test=1)
    layers.max_pool(model, "dropped", "pool", 2, stride=2)
    net.add("ResizeNearest", ["pool"], ["large"], height_scale=2.0, width_scale=2.0)
    net.add("ChannelShuffle", ["large"], ["shuffled"], group=2, kernel=1)
    net.add("LeakyRelu", ["shuffled"], ["leaky"], alpha=0.1)
    layers.average_pool(model, "leaky", "mean", global_pooling=1)
    net.add("Flatten", ["mean"], ["flat"])
    layers.fc(model, "flat", "scores", 16, 10)
    net.add("Softmax", ["scores"], ["softmax"])
    for name in ("softmax", "scores"):
        net.add_external_output(name)
    workspace, random = Workspace(), np.random.default_rng(SEED)
    seed_operators(model.init_net.proto, 3)
    workspace.run_net_once(model.init_net.proto)
    for name in workspace.blob_names():
        shape = np.shape(workspace.fetch(name))
        if name.endswith(("_rm", "_b", "_bn_s", "_riv")):
            workspace.feed(name, random.uniform(0.2, 0.8, shape).astype(np.float32))
        elif name.endswith("_w"):
            workspace.feed(name, np.float32(0.25) * random.standard_normal(shape).astype(np.float32))
    return export_nets(model, workspace)


def write(path: str) -> None:
    """Write nets of bytes that Caffe2 reads, and images."""
    init, predict = quantize_nets(*mixed(), [{"data": data()}], weights="tensor")
    predict.type = "simple"
    first, second = (np.frombuffer(net.SerializeToString(), np.uint8) for net in (init, predict))
    np.savez_compressed(path, init=first, net=second, data=data())


if __name__ == "__main__":
    write(sys.argv[1])
