"""Print how long a step of training takes by the old names and by tazza's own, in us, and the ratio.

    python -m benchmarks.old_names --batch 64

Both train the same net of type `simple`; runs are taken in turns, so that a slow moment of the machine meets both.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from caffe2.python import brew, model_helper, optimizer, workspace
from tazza import Model, Workspace, sgd
from tazza.workspace import current_workspace


def feed(into: Workspace, batch: int) -> None:
    """Feed a batch."""
    into.feed("data", np.random.default_rng(1).random((batch, 1, 28, 28), np.float32))
    into.feed("label", np.arange(batch, dtype=np.int32) % 10)


def by_old_names(batch: int) -> Callable[[], object]:
    """Return a step of a LeNet that is trained as scripts did."""
    model = model_helper.ModelHelper("old_names")
    pool1 = brew.max_pool(model, brew.conv(model, "data", "conv1", 1, 20, 5), "pool1", kernel=2, stride=2)
    pool2 = brew.max_pool(model, brew.conv(model, pool1, "conv2", 20, 50, 5), "pool2", kernel=2, stride=2)
    relu3 = brew.relu(model, brew.fc(model, pool2, "fc3", 50 * 4 * 4, 500), "relu3")
    _, loss = model.net.SoftmaxWithLoss([brew.fc(model, relu3, "pred", 500, 10), "label"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, 0.01, momentum=0.9)
    workspace.RunNetOnce(model.param_init_net)
    feed(current_workspace(), batch)
    workspace.CreateNet(model.net)
    return lambda: workspace.RunNet(model.net)


def by_own_names(batch: int) -> Callable[[], None]:
    """Return the same by tazza's names."""
    model = Model("own_names")
    pool1 = model.max_pool(model.conv("data", "conv1", 1, 20, 5), "pool1", 2, stride=2)
    pool2 = model.max_pool(model.conv(pool1, "conv2", 20, 50, 5), "pool2", 2, stride=2)
    relu3 = model.relu(model.fc(pool2, "fc3", 50 * 4 * 4, 500), "relu3")
    _, loss = model.softmax_with_loss(model.fc(relu3, "pred", 500, 10), "label", ["softmax", "loss"])
    model.add_gradients([loss])
    sgd(model, 0.01, momentum=0.9)
    made = Workspace()
    made.run_net_once(model.init_net.proto)
    feed(made, batch)
    return made.create_net(model.net.proto).run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time training by the old names against tazza's own")
    parser.add_argument("--batch", type=int, default=64, help="images in a step (default: 64)")
    parser.add_argument("--runs", type=int, default=200, help="steps of each (default: 200)")
    given = parser.parse_args()
    steps = {"old names": by_old_names(given.batch), "tazza's own": by_own_names(given.batch)}
    for step in steps.values():
        for _ in range(5):
            step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(given.runs):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, median in medians.items():
        print(f"{median * 1e6:10.1f} us  {name}")
    ratio = medians["tazza's own"] / medians["old names"]
    print(f"speed by the old names: {ratio:.3f} of tazza's own")


if __name__ == "__main__":
    main()
