"""Who is told how a training of a command goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tazza.cli import training_run
from tazza.cli.train_folder import HISTORY
from tazza.cli.train_settings import StoredSettings
from tazza.models.evaluation import Evaluation
from tazza.models.listener import TrainingListener
from tazza.models.training import Trainer, TrainingStep
from tests.cli.conftest import Run


class Heard(TrainingListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def began(self, trainer: Trainer) -> None:
        self.told.append(f"began {trainer.iteration}")

    def stepped(self, trainer: Trainer, step: TrainingStep) -> None:
        self.told.append(f"stepped {step.iteration}")

    def tested(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
        self.told.append(f"tested {trainer.iteration}: {', '.join(figures)}")

    def finished(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        self.told.append(f"finished with {'nothing' if evaluation is None else evaluation.count}")

    def close(self) -> None:
        self.told.append("closed")


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_listeners_are_told_of_each_step_and_test_also_where_a_training_goes_on(
    run: Run, bars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()

    def listeners_of(settings: StoredSettings, out: Path) -> list[TrainingListener]:
        assert out == tmp_path / "out"
        assert isinstance(settings, StoredSettings)
        return [heard]

    save = Trainer.save

    def save_behind_history(trainer: Trainer, path: Path) -> None:
        lines = (tmp_path / "out" / HISTORY).read_text().splitlines()
        assert len(lines) == trainer.iteration + 1, "a training that is killed now and goes on has all of its steps"
        save(trainer, path)

    monkeypatch.setattr(training_run, "listeners_of", listeners_of)
    monkeypatch.setattr(Trainer, "save", save_behind_history)
    options = ("--data", bars, "--batch-size", 60, "--out", tmp_path / "out")
    assert run("train", "lenet", *options, "--iterations", 2).exit_code == 0
    first = ["began 0", "stepped 1", "tested 1: test_accuracy", "stepped 2", "tested 2: test_accuracy"]
    assert heard.told == [*first, "finished with 20", "closed"]
    heard.told.clear()
    assert run("train", "lenet", *options, "--iterations", 3, "--resume").exit_code == 0
    assert heard.told == ["began 2", "stepped 3", "tested 3: test_accuracy", "finished with 20", "closed"]
