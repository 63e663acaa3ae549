"""A task that is learned in no time: y = x / 2, by a layer (3 -> 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tazza import Model, Workspace
from tazza.models import sgd
from tazza.models.task import Batch, TrainingTask


@dataclass
class Halves(TrainingTask):  # noqa: D101 -- see above
    rate: float = 0.1
    ragged: bool = False
    folder: Path | None = None
    pair: tuple[int, ...] = ()

    def steps(self) -> int:  # noqa: D102 -- see TrainingTask
        return 40

    def build(self) -> Model:  # noqa: D102 -- see TrainingTask
        model = Model("halves")
        model.net.add("SquaredL2Distance", [model.fc("x", "y", 3, 3), "half"], "distances")
        model.add_gradients([model.averaged_loss("distances", "loss")])
        sgd(model, self.rate, momentum=0.5)
        return model

    def build_predictor(self) -> Model:  # noqa: D102 -- see TrainingTask
        model = Model("halve", parameters_of=self.model)
        model.net.add_external_input("x")
        model.net.add_external_output(model.fc("x", "y", 3, 3))
        return model

    def batch(self, number: int) -> Batch:  # noqa: D102 -- see TrainingTask
        rows = 16 + number % 5 if self.ragged else 16
        x = np.random.default_rng(number).normal(size=(rows, 3)).astype(np.float32)
        return {"x": x, "half": x / 2}

    def test(self, workspace: Workspace) -> Mapping[str, float]:  # noqa: D102 -- see TrainingTask
        x = np.arange(3000, dtype=np.float32).reshape(1000, 3) % 7 - 3
        workspace.feed("x", x)
        workspace.run_net_once(self.build_predictor().net.proto)
        return {"error": float(np.square(workspace.fetch("y") - x / 2).mean()), "tested_of": 1000}
