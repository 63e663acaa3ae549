"""`tazza train lenet`: data into databases, training, tests, files and pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from tazza.cli.console import make_console, print_text
from tazza.cli.progress import Pace
from tazza.cli.ranks import LenetJob, build_share, follow_lenet, follows
from tazza.cli.train_folder import CHECKPOINT, HISTORY, OF_EVERY, SETTINGS, remove_results, training_folder
from tazza.cli.train_nets import SOFTMAX, TrainingNets
from tazza.cli.train_settings import TrainSettings
from tazza.cli.training_run import TrainingRun
from tazza.db.image_source import TrainAndTest, prepare
from tazza.interop import save_nets, save_predictor
from tazza.interop.model_folder import INIT, PREDICT
from tazza.models.evaluation import Evaluation, evaluate
from tazza.models.training import Trainer
from tazza.runtime.files import kind_of
from tazza.workspace import Workspace

PREDICTOR, DIGIT = "lenet.minidb", "digit.png"
RESULTS = (*OF_EVERY, PREDICTOR, DIGIT)
"""What a training leaves, beside its settings and data."""
LEAST_SURE = 24
"""Images in the picture of those that the net was least sure of."""


def train_lenet(given: Mapping[str, Any], out: Path, *, resume: bool, overwrite: bool, trust: bool = False) -> None:
    """Train as the options say, and write everything into `out`.

    Args:
        given: options by name.
        out: the folder.
        resume: go on with the training that is there; from its beginning where it has no checkpoint yet.
        overwrite: replace the training that is there.
        trust: let nets from files read and write other files; never taken from a folder.

    Raises:
        TazzaError: anything that the user can mend.
        KeyboardInterrupt: it was interrupted.
    """
    if follows():
        follow_lenet()
        return
    console = make_console()
    started = time.perf_counter()
    with training_folder(out, RESULTS, resume=resume, overwrite=overwrite):
        settings = (TrainSettings.read(out / SETTINGS) if resume else TrainSettings()).updated(given)
        settings.check()
        goes_on = resume and kind_of(out / CHECKPOINT) is not None
        data = prepare(settings.data, settings.test_data, out / "data", seed=settings.seed, going_on=goes_on)
        iterations = settings.iterations_of(data.train.count)
        nets = build_share(LenetJob.of(settings, data, iterations, out / CHECKPOINT if goes_on else None, trust))
        if not goes_on:
            remove_results(out, RESULTS)
            settings.write(out / SETTINGS)
        print_text(
            console,
            f"data: {data.train.count} images to learn from in {data.train.db_type} '{data.train.path}',"
            f" {data.test.count} to test on",
        )
        run = _Run(console, settings, data, nets, iterations, out)
        with Trainer(nets.init, nets.train, Workspace(), accuracy=nets.accuracy) as trainer:
            run.go(trainer, settings, started, resume=goes_on)


class _Run(TrainingRun):
    """Images, tested after each round through them."""

    command = "tazza train lenet"
    tested = "test_accuracy"

    def __init__(
        self,
        console: Console,
        settings: TrainSettings,
        data: TrainAndTest,
        nets: TrainingNets,
        iterations: int,
        out: Path,
    ) -> None:
        epoch = max(1, data.train.count // settings.batch_size)
        every = epoch if settings.checkpoint_every is None else settings.checkpoint_every
        super().__init__(console, Pace(settings.batch_size, iterations), out, iterations=iterations, every=every)
        self._data, self._nets, self._batch = data, nets, settings.batch_size

    def _epochs_of(self, iterations: int) -> int:
        """Return how many rounds through the data these are; what `TrainSettings.iterations_of` is the inverse of."""
        return max(iterations, 0) * self._batch // self._data.train.count

    def test_round(self, trainer: Trainer) -> str | None:
        """Test after each round."""
        done = trainer.iteration
        if self._epochs_of(done) <= self._epochs_of(done - 1):
            return None
        tested = self._evaluate(trainer, 0)
        self.note_test(trainer, {self.tested: tested.accuracy})
        return f"epoch {self._epochs_of(done)}  {self.pace}  test accuracy {tested.accuracy:.2%}"

    def _evaluate(self, trainer: Trainer, keep: int) -> Evaluation:
        nets = self._nets
        return evaluate(
            trainer.workspace,
            nets.test_init,
            nets.test,
            parameters=nets.parameters,
            count=self._data.test.count,
            keep=keep,
        )

    def finish(self, trainer: Trainer, started: float) -> Evaluation:
        """Test, write the nets, draw the pictures, and print the results."""
        from tazza.observers.drawing import save_image

        tested = self._evaluate(trainer, min(LEAST_SURE, self._data.test.count))
        self.note_test(trainer, {self.tested: tested.accuracy})
        self.history.write(self.out / HISTORY)
        self._export(trainer.workspace)
        save_image(self.out / DIGIT, tested.least_sure[-1].image)
        self.show_accuracy(trainer, tested, started)
        return tested

    def _export(self, workspace: Workspace) -> None:
        net, names = self._nets.core, self._nets.parameters
        out = self.out
        save_nets(out / INIT, out / PREDICT, net, workspace, outputs=[SOFTMAX], parameters=names)
        save_predictor(out / PREDICTOR, net, workspace, outputs=[SOFTMAX], parameters=names)
