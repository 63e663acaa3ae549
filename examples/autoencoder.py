"""An autoencoder: a net that squeezes a picture of 784 pixels into a few numbers, and draws it again from these.

    tazza train examples/autoencoder.py                         # the digits of scikit-learn
    tazza train examples/autoencoder.py --set data=FOLDER       # MNIST's four files

784 - 256 - 32 - 256 - 784: rectifiers between, 32 numbers in the middle (the code). The loss is the cross entropy of
each pixel, summed; the result is the mean square of what is lost of a pixel in [0, 1] of pictures that training never
saw, beside what the mean picture alone would lose, and what the best 32 straight directions do (principal components).

Source: Hinton, Salakhutdinov 2006, "Reducing the dimensionality of data with neural networks".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza import Model, Workspace
from tazza.db.images import LabelledImages, held_back, load_digits, load_idx
from tazza.models.optimizer import adam
from tazza.models.task import Batch, TrainingTask

Rows = NDArray[np.float32]
PIXELS = 28 * 28


@dataclass
class Autoencoder(TrainingTask):
    """Pictures from MNIST's files in a folder, or the digits of scikit-learn."""

    data: str | None = None
    epochs: float = 40.0
    images_per_batch: int = 64
    hidden: int = 256
    code: int = 32

    @cached_property
    def pictures(self) -> tuple[Rows, Rows]:
        """Pictures to learn from, and others to be tested on."""
        if self.data is not None:
            return rows_of(load_idx(Path(self.data), "train")), rows_of(load_idx(Path(self.data), "test"))
        digits = load_digits()
        train, test = held_back(digits.labels, 0.2, seed=1)
        return rows_of(digits.take(train)), rows_of(digits.take(test))

    def steps(self) -> int:
        """Return how many batches are in all epochs."""
        return int(self.epochs * len(self.pictures[0]) / self.images_per_batch)

    def build(self) -> Model:
        """Return the net that draws, with its loss."""
        model = Model("autoencoder")
        model.net.add("SigmoidCrossEntropyWithLogits", [self._layers(model), "data"], "losses")
        model.add_gradients([model.averaged_loss("losses", "loss")])
        adam(model, 2e-3)
        return model

    def build_predictor(self) -> Model:
        """Return the net that draws: `data` becomes `drawn`."""
        model = Model("drawing", parameters_of=self.model)
        model.net.add_external_input("data")
        model.net.add_external_output(model.net.add("Sigmoid", [self._layers(model)], "drawn"))
        return model

    def _layers(self, model: Model) -> str:
        sizes = [PIXELS, self.hidden, self.code, self.hidden, PIXELS]
        x: str = "data"
        for number, (before, after) in enumerate(pairwise(sizes), 1):
            x = model.fc(x, f"fc{number}", before, after)
            if after not in (self.code, PIXELS):
                x = model.relu(x, x)
        return x

    def batch(self, number: int) -> Batch:
        """Return pictures that are drawn with the number as seed."""
        images = self.pictures[0]
        return {"data": images[np.random.default_rng(number).integers(0, len(images), self.images_per_batch)]}

    def test(self, workspace: Workspace) -> Mapping[str, float]:
        """Return what is lost of a pixel, squared: by the net, by principal components, by the mean picture."""
        test = self.pictures[1]
        workspace.feed("data", test)
        workspace.run_net_once(self.build_predictor().net.proto)
        drawn: Any = workspace.fetch("drawn")
        return {"lost": _square(drawn - test), **self.beside}

    @cached_property
    def beside(self) -> dict[str, float]:
        """What is lost without a net."""
        images, test = self.pictures
        components, mean_picture = by_components(images, test, self.code), _square(images.mean(axis=0) - test)
        return {"lost_by_components": components, "lost_by_mean_picture": mean_picture}


def rows_of(images: LabelledImages) -> Rows:
    """Return pictures as rows of numbers in [0, 1]."""
    return images.images.reshape(len(images), PIXELS).astype(np.float32) / np.float32(255)


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
