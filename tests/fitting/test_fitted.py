"""`tazza.fit`: one call, listeners, early stopping, and the best of all tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tazza
from tazza.errors import ArgumentError, NotFoundError
from tazza.fitting import fitted as module
from tazza.fitting.training import PictureTraining
from tazza.models.evaluation import Evaluation
from tazza.models.listener import TrainingListener
from tazza.models.training import Trainer, TrainingStep
from tests.fitting.conftest import CLASSES, pictures


class Heard(TrainingListener):
    """Counts what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def began(self, trainer: Trainer) -> None:
        self.told.append(f"began {trainer.iteration}")

    def stepped(self, trainer: Trainer, step: TrainingStep) -> None:
        assert trainer.iteration == step.iteration
        self.told.append("stepped")

    def tested(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
        self.told.append(f"tested {next(iter(figures))}")

    def finished(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        self.told.append("finished")
        assert evaluation is not None

    def close(self) -> None:
        self.told.append("closed")


@pytest.mark.slow
def test_a_folder_is_learned_in_one_call(photos: Path, tmp_path: Path) -> None:
    heard = Heard()
    options: dict[str, Any] = {"batch_size": 10, "solver": "adam", "policy": "cosine", "flip": True, "epochs": 4}
    with tazza.fit("mlp", photos, out=tmp_path / "out", listeners=[heard], **options) as fitted:
        images, labels = pictures(6, 2)
        assert fitted.names == CLASSES
        assert fitted.classify(*images) == [CLASSES[label] for label in labels]
        assert fitted.evaluation.accuracy == fitted.tests[8] == 1.0
        assert (len(fitted.steps), list(fitted.tests)) == (8, [2, 4, 6, 8])
        wanted = fitted.probabilities(images[0])
    assert heard.told == ["began 0", *["stepped", "stepped", "tested test_accuracy"] * 4, "finished", "closed"]
    with tazza.load(tmp_path / "out") as predictor:
        made = predictor.run([fitted.prepare(images[0])])["softmax"]
    np.testing.assert_allclose(made, wanted, rtol=1e-6)


@pytest.mark.slow
def test_the_best_is_kept_and_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that get worse from the second on: what comes back is what the second one saw."""
    seen: list[bytes] = []
    accuracies = [0.1, 0.9, 0.8, 0.9, 0.7]

    def accuracy(training: PictureTraining, iteration: int) -> float:
        assert iteration == 2 * len(seen) + 2
        seen.append(training.workspace.fetch("pred_w").tobytes())
        return accuracies[len(seen) - 1]

    monkeypatch.setattr(module, "_accuracy", accuracy)
    given: dict[str, Any] = {"batch_size": 16, "epochs": 20, "learning_rate": 0.01}
    with tazza.fit("mlp", pictures(40), patience=3, keep_best=True, **given) as fitted:
        assert list(fitted.tests.values()) == accuracies
        assert fitted.predictor.workspace.fetch("pred_w").tobytes() == seen[1] != seen[-1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"epoch": 3}, "did you mean epochs"),
        ({"patience": 0}, "patience = 0"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"shift": -1}, "shift = -1"),
        ({"net_options": {"depth": 3}}, "mlp does not take depth"),
        ({"test_share": 1.5}, "a share of 1.5"),
    ],
)
def test_options_that_cannot_be(given: dict[str, Any], told: str) -> None:
    with pytest.raises((ArgumentError, NotFoundError), match=told):
        tazza.fit("mlp", pictures(10), **given)
