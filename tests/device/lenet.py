"""LeNet learns digits on the fake device, and on the host: python -m tests.device.lenet FOLDER [--steps 100].

The folder holds the files of MNIST. All of the net runs on the device: convolutions by a stand-in of cuDNN, products
by one of cuBLAS, kernels of our own from the text that PTX is made of.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.db.images import LabelledImages, load_idx
from tazza.device import device_option
from tazza.models import Model, sgd
from tazza.models.training import seed_operators
from tazza.models.zoo.lenet import lenet, lenet_training
from tazza.tensor import CPUPlace, CUDAPlace, Place
from tazza.workspace import Workspace
from tests.device.cuda_cases import some_device

BATCH = 64
DEVICE, HOST = CUDAPlace(0), CPUPlace()


def batches(given: LabelledImages, steps: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield images between 0 and 1 (N, 1, 28, 28), and their labels."""
    for step in range(steps):
        taken = np.arange(step * BATCH, (step + 1) * BATCH) % len(given.labels)
        images = np.asarray(given.images[taken], np.float32).reshape(-1, 1, 28, 28) / 256
        yield images, np.asarray(given.labels[taken], np.int32)


def learned(
    place: Place, type: str, train: LabelledImages, test: LabelledImages, sizes: tuple[int, int]
) -> tuple[list[float], float]:
    """Return the losses of so many steps at a place, and the share of so many images that is found then."""
    workspace, model = Workspace(), Model("digits")
    lenet_training(model, "data", "label")
    sgd(model, 0.1, policy="step", stepsize=1, gamma=0.999)
    judge = Model("judge")
    lenet(judge, "data")
    for seed, net in enumerate((model.init_net.proto, model.net.proto, judge.net.proto), 1):
        net.device_option.CopyFrom(device_option(place))
        seed_operators(net, seed)
        net.type = type
    model.net.add_external_output("loss")
    judge.net.add_external_output("softmax")
    model.init_net.proto.type = "simple"
    workspace.run_net_once(model.init_net.proto)

    def feed(images: NDArray[Any], labels: NDArray[Any]) -> None:
        workspace.feed("data", images, place)
        workspace.feed("label", labels, place)

    steps, tested = sizes
    losses: list[float] = []
    for number, batch in enumerate(batches(train, steps)):
        feed(*batch)
        if number == 0:
            workspace.create_net(model.net.proto)
        workspace.run_net(model.net.proto.name)
        losses.append(float(workspace.fetch("loss")))
    found = 0
    for number, (images, labels) in enumerate(batches(test, tested // BATCH)):
        feed(images, labels)
        if number == 0:
            workspace.create_net(judge.net.proto)
        workspace.run_net(judge.net.proto.name)
        found += int((workspace.fetch("softmax").argmax(1) == labels).sum())
    return losses, found / (tested // BATCH * BATCH)


def main() -> None:
    """Train at both places, and print accuracies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name, default in (("steps", 100), ("tested", 2048)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--type", default="plan")
    given = parser.parse_args()
    train, test = (load_idx(given.folder, split) for split in ("train", "test"))
    with some_device():
        for place in (DEVICE, HOST):
            start_s = time.perf_counter()
            losses, accuracy = learned(place, given.type, train, test, (given.steps, given.tested))
            took_s = time.perf_counter() - start_s
            shown = ", ".join(f"{loss:.6f}" for loss in losses[:: max(1, len(losses) // 5)])
            print(f"{place}: losses {shown}; {accuracy:.2%} of {given.tested // BATCH * BATCH} digits, {took_s:.0f} s")


if __name__ == "__main__":
    main()
