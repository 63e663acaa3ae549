"""An autoencoder: a net that squeezes a picture of 784 pixels into a few numbers, and draws it again from these.

    python examples/autoencoder.py                      # the digits of scikit-learn
    python examples/autoencoder.py --data FOLDER        # MNIST's four files

784 - 256 - 32 - 256 - 784: rectifiers between, 32 numbers in the middle (the code). The loss is the cross entropy of
each pixel, summed; the result is the mean square of what is lost of a picture that training never saw, beside what the
mean picture alone would lose, and what the best 32 straight directions do (principal components).

Source: Hinton, Salakhutdinov 2006, "Reducing the dimensionality of data with neural networks".
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza import Model, Workspace
from tazza.db.images import LabelledImages, held_back, load_digits, load_idx
from tazza.models.optimizer import adam

Rows = NDArray[np.float32]
PIXELS = 28 * 28


@dataclass(frozen=True)
class Lost:
    """Mean squares of what is lost of a pixel in [0, 1], of pictures that were held back."""

    autoencoder: float
    mean_picture: float
    principal_components: float


def rows_of(images: LabelledImages) -> Rows:
    """Return pictures as rows of numbers in [0, 1]."""
    return images.images.reshape(len(images), PIXELS).astype(np.float32) / np.float32(255)


def load(data: str | None) -> tuple[Rows, Rows]:
    """Return pictures to learn from, and others to be tested on."""
    if data is not None:
        return rows_of(load_idx(Path(data), "train")), rows_of(load_idx(Path(data), "test"))
    digits = load_digits()
    train, test = held_back(digits.labels, 0.2, seed=1)
    return rows_of(digits.take(train)), rows_of(digits.take(test))


def build(hidden: int, code: int) -> tuple[Model, Model]:
    """Return a model that trains, and one with its parameters that draws: `data` becomes `drawn`."""
    training = Model("autoencoder")
    scores = _layers(training, hidden, code)
    training.net.add("SigmoidCrossEntropyWithLogits", [scores, "data"], "losses")
    training.add_gradients([training.averaged_loss("losses", "loss")])
    adam(training, 2e-3)
    drawing = Model("drawing", parameters_of=training)
    drawing.net.add("Sigmoid", [_layers(drawing, hidden, code)], "drawn")
    return training, drawing


def _layers(model: Model, hidden: int, code: int) -> str:
    sizes = [PIXELS, hidden, code, hidden, PIXELS]
    x: str = "data"
    for number, (before, after) in enumerate(pairwise(sizes), 1):
        x = model.fc(x, f"fc{number}", before, after)
        if after not in (code, PIXELS):
            x = model.relu(x, x)
    return x


def train(images: Rows, test: Rows, *, epochs: float, batch: int = 64, hidden: int = 256, code: int = 32) -> Lost:
    """Train on pictures (N, 784), and return what is lost of the others."""
    training, drawing = build(hidden, code)
    workspace, random = Workspace(), np.random.default_rng(1)
    workspace.feed("data", images[:batch])
    workspace.run_net_once(training.init_net.proto)
    net = workspace.create_net(training.net.proto)
    for iteration in range(int(epochs * len(images) / batch)):
        workspace.feed("data", images[random.integers(0, len(images), batch)])
        net.run()
        if iteration % 200 == 0:
            print(f"iteration {iteration}: loss {float(workspace.fetch('loss')):.4f}")
    workspace.feed("data", test)
    workspace.create_net(drawing.net.proto).run()
    drawn: Any = workspace.fetch("drawn")
    workspace.reset()
    return Lost(_square(drawn - test), _square(images.mean(axis=0) - test), by_components(images, test, code))


def by_components(images: Rows, test: Rows, count: int) -> float:
    """Return what is lost where pictures are drawn from their principal components."""
    mean = images.mean(axis=0)
    centred = (images - mean).astype(np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)
    kept = directions[:, -count:]
    left = (test - mean).astype(np.float64)
    return _square(left - left @ kept @ kept.T)


def _square(difference: NDArray[Any]) -> float:
    return float(np.square(difference).mean())


def main(words: Sequence[str] | None = None) -> Lost:
    """Train, print what is lost, and return it."""
    parser = argparse.ArgumentParser(description="Train an autoencoder on handwritten digits.")
    parser.add_argument("--data", help="folder with MNIST's IDX files; the digits of scikit-learn by default")
    parser.add_argument("--epochs", type=float, default=40.0)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--code", type=int, default=32)
    given = parser.parse_args(words)
    images, test = load(given.data)
    lost = train(images, test, epochs=given.epochs, hidden=given.hidden, code=given.code)
    print(f"lost of a pixel, squared: {lost.autoencoder:.5f} from {given.code} numbers,")
    print(f"{lost.principal_components:.5f} from as many principal components, {lost.mean_picture:.5f} without any")
    return lost


if __name__ == "__main__":
    main()
