"""`tazza train lenet`: data into databases, training, tests, files and pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from tazza.cli.console import make_console
from tazza.cli.history import History
from tazza.cli.progress import Display, Pace
from tazza.cli.train_nets import SOFTMAX, TrainingNets, build
from tazza.cli.train_settings import TrainSettings
from tazza.db.image_source import TrainAndTest, prepare
from tazza.errors import FileError
from tazza.interop import save_nets, save_predictor
from tazza.models.evaluation import Evaluation, evaluate
from tazza.models.training import Trainer
from tazza.workspace import Workspace

CHECKPOINT, SETTINGS, HISTORY = "checkpoint.minidb", "settings.json", "history.csv"
LEAST_SURE = 24
"""Images in the picture of those that the net was least sure of."""


def train_lenet(given: Mapping[str, Any], out: Path, *, resume: bool) -> None:
    """Train as the options say, and write everything into `out`.

    Raises:
        TazzaError: anything that the user can mend.
    """
    console = make_console()
    started = time.perf_counter()
    settings = _settings(given, out, resume)
    data = prepare(settings.data, settings.test_data, out / "data", seed=settings.seed)
    iterations = settings.iterations_of(data.train.count)
    nets = build(settings, data, iterations)
    settings.write(out / SETTINGS)
    console.print(
        f"data: {data.train.count} images to learn from in {data.train.db_type} '{data.train.path}',"
        f" {data.test.count} to test on",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    run = _Run(console, settings, data, nets, iterations, out)
    with Trainer(nets.init, nets.train, Workspace(), accuracy=nets.accuracy) as trainer:
        if resume:
            trainer.load(out / CHECKPOINT)
            run.history = History.read(out / HISTORY, trainer.iteration)
            run.say(f"going on after iteration {trainer.iteration} of {iterations}")
        elif (out / CHECKPOINT).exists():
            run.say(f"starting anew: '{out / CHECKPOINT}' will be replaced (--resume goes on from it)")
        run.learn(trainer)
        run.finish(trainer, time.perf_counter() - started)


def _settings(given: Mapping[str, Any], out: Path, resume: bool) -> TrainSettings:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make the folder '{out}': {error.strerror}", hint="name another folder with --out"
        ) from error
    if resume and not (out / CHECKPOINT).is_file():
        raise FileError(f"'{out}' has no checkpoint to go on from", hint="leave --resume out, or name another --out")
    before = TrainSettings.read(out / SETTINGS) if resume else TrainSettings()
    settings = before.updated(given)
    settings.check()
    settings.write(out / SETTINGS)  # so that a folder that cannot be written is found before anything else is done
    return settings


class _Run:
    """One training: what it was asked, what it gave so far, and where that goes."""

    def __init__(
        self,
        console: Console,
        settings: TrainSettings,
        data: TrainAndTest,
        nets: TrainingNets,
        iterations: int,
        out: Path,
    ) -> None:
        self.history = History()
        self._console = console
        self._data, self._nets, self._out = data, nets, out
        self._iterations = iterations
        self._epoch = max(1, data.train.count // settings.batch_size)
        self._every = self._epoch if settings.checkpoint_every is None else settings.checkpoint_every
        self._pace = Pace(settings.batch_size, iterations)

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def learn(self, trainer: Trainer) -> None:
        """Run the train net as often as wanted; test after each round through the data."""
        checkpoint = self._out / CHECKPOINT
        steps = trainer.run(self._iterations, checkpoint=checkpoint, every=self._every)
        try:
            with Display(self._console, self._pace, trainer.iteration) as display:
                before = time.perf_counter()
                for step in steps:
                    self._pace.add(step, time.perf_counter() - before)
                    self.history.steps.append(step)
                    display.show(step)
                    at_end = step.iteration == self._iterations
                    if step.iteration % self._epoch == 0 and not at_end:
                        display.note(self._test_now(trainer))
                    if at_end or step.iteration % self._every == 0:
                        self.history.write(self._out / HISTORY)
                    before = time.perf_counter()
        except KeyboardInterrupt:
            if checkpoint.exists():
                self.say(f"interrupted; go on with: tazza train lenet --out '{self._out}' --resume")
            raise

    def _test_now(self, trainer: Trainer) -> str:
        tested = self._evaluate(trainer, 0)
        self.history.tests[trainer.iteration] = tested.accuracy
        return f"epoch {trainer.iteration // self._epoch}  {self._pace}  test accuracy {tested.accuracy:.2%}"

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

    def finish(self, trainer: Trainer, seconds: float) -> None:
        """Test, write the nets, draw the pictures, and print the results."""
        before = time.perf_counter()
        tested = self._evaluate(trainer, min(LEAST_SURE, self._data.test.count))
        self.history.tests[trainer.iteration] = tested.accuracy
        self.history.write(self._out / HISTORY)
        self._export(trainer.workspace)
        self._draw(tested)
        seconds += time.perf_counter() - before
        self.say(f"written to '{self._out}': {', '.join(sorted(path.name for path in self._out.iterdir()))}")
        self.say(
            f"test accuracy {tested.accuracy:.2%} ({tested.correct} of {tested.count}),"
            f" {self._pace.images_per_s:.0f} images/s, {trainer.iteration} iterations, {seconds:.1f} s in all"
        )

    def _export(self, workspace: Workspace) -> None:
        net, names = self._nets.core, self._nets.parameters
        out = self._out
        save_nets(out / "init_net.pb", out / "predict_net.pb", net, workspace, outputs=[SOFTMAX], parameters=names)
        save_predictor(out / "lenet.minidb", net, workspace, outputs=[SOFTMAX], parameters=names)

    def _draw(self, tested: Evaluation) -> None:
        from tazza.observers.drawing import draw_curves, draw_least_sure

        title = f"test accuracy {tested.accuracy:.2%}"
        loss = self.history.curve(lambda step: step.loss)
        if loss is not None:
            accuracy = self.history.curve(lambda step: step.accuracy)
            draw_curves(self._out / "curves.png", loss, accuracy, tested=self.history.tested(), title=title)
        draw_least_sure(
            self._out / "least_sure.png", tested.least_sure, title=f"least sure of {tested.count} ({title})"
        )
