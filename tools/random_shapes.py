"""Run nets on one random shape after another, and print the memory of the process: `python tools/random_shapes.py`.

What tazza keeps for shapes is bounded. oneDNN 3.2 never frees the code of some primitives, 17 KB each in this net; of
these it makes `onednn_unfreed`, and then its next implementation. So a plan grows for some thousand shapes, until
caches are full, and stays as large as it is then.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.runtime.cache import statistics
from tazza.workspace import Workspace

CHANNELS, MIDDLE, CLASSES = 8, 16, 10


def net_of(type: str) -> NetDef:
    """Return a small convolutional net for images of any size."""
    return NetDef(
        name=f"random shapes {type}",
        type=type,
        op=[
            operator_def("Conv", ["x", "w1", "b1"], ["c1"], kernel=3, pad=1),
            operator_def("Relu", ["c1"], ["r1"]),
            operator_def("MaxPool", ["r1"], ["p1"], kernel=2, stride=2),
            operator_def("Conv", ["p1", "w2", "b2"], ["c2"], kernel=3, pad=1),
            operator_def("Relu", ["c2"], ["r2"]),
            operator_def("AveragePool", ["r2"], ["p2"], global_pooling=1),
            operator_def("FC", ["p2", "w3", "b3"], ["f"]),
            operator_def("Softmax", ["f"], ["y"]),
        ],
        external_output=["y"],
    )


def run_shapes(type: str, count: int, seed: int = 0) -> Iterator[int]:
    """Run a net of a type on so many shapes; yield how many ran, after each."""
    rng = np.random.default_rng(seed)
    workspace = Workspace()
    for name, shape in (
        ("w1", (MIDDLE, CHANNELS, 3, 3)),
        ("b1", (MIDDLE,)),
        ("w2", (MIDDLE, MIDDLE, 3, 3)),
        ("b2", (MIDDLE,)),
        ("w3", (CLASSES, MIDDLE)),
        ("b3", (CLASSES,)),
    ):
        workspace.feed(name, rng.standard_normal(shape, dtype=np.float32))
    net = None
    for number in range(1, count + 1):
        batch, height, width = int(rng.integers(1, 9)), int(rng.integers(6, 70)), int(rng.integers(6, 70))
        workspace.feed("x", np.ones((batch, CHANNELS, height, width), np.float32))
        if net is None:
            net = workspace.create_net(net_of(type))
        net.run()
        yield number


def resident_bytes() -> int:
    """Return the memory of this process, as Linux counts it."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def main() -> None:
    """Print the memory at some counts, and the caches at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--type", default="plan", help="of the net")
    parser.add_argument("--count", type=int, default=10_000, help="of shapes")
    arguments = parser.parse_args()
    steps = sorted({arguments.count * part // 20 for part in range(1, 21)})
    for number in run_shapes(arguments.type, arguments.count):
        if number in steps:
            print(f"{arguments.type}: {number} shapes, {resident_bytes() / 2**20:.1f} MB", flush=True)
    for one in statistics():
        if one.misses:
            print(one)


if __name__ == "__main__":
    main()
