"""A task that learns in a moment, for ranks that are killed: `tazza train tests/distributed/halves.py`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tazza.models import Model, sgd
from tazza.models.task import Batch, TrainingTask
from tazza.workspace import Workspace


@dataclass
class Halves(TrainingTask):
    """Half of the first number of four; each batch takes `pause_s` at least."""

    pause_s: float = 0.0

    def steps(self) -> int:
        """Return how many there are."""
        return 40

    def build(self) -> Model:
        """Return two layers that learn."""
        model = Model("halves")
        hidden = model.relu(model.fc("x", "hidden", 4, 16), "hidden")
        model.net.add("SquaredL2Distance", [model.fc(hidden, "y", 16, 1), "half"], "distances")
        model.add_gradients([model.averaged_loss("distances", "loss")])
        sgd(model, 0.01, momentum=0.9)
        return model

    def batch(self, number: int) -> Batch:
        """Return numbers and halves."""
        time.sleep(self.pause_s)
        x = np.random.default_rng(number).normal(size=(16, 4)).astype(np.float32)
        return {"x": x, "half": x[:, :1] / 2}

    def test(self, workspace: Workspace) -> Mapping[str, float]:
        """Return how large the last weights are."""
        return {"size": float(np.abs(workspace.fetch("y_w")).sum())}
