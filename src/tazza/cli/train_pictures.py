"""`tazza train NET`: a classifier of the zoo, or a model from files, on pictures of one's own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tazza.cli.console import left_out, make_console, print_text
from tazza.cli.progress import Counted, Pace
from tazza.cli.ranks import PicturesJob, agreed, follow_pictures, follows, refuse_ranks, share_pictures
from tazza.cli.train_folder import (
    CHECKPOINT,
    HISTORY,
    OF_EVERY,
    SETTINGS,
    alone_in,
    make_writable,
    remove_results,
    training_folder,
)
from tazza.cli.train_settings import StoredSettings, check_length
from tazza.cli.train_task import options_of
from tazza.cli.training_run import TrainingRun
from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.fitting import (
    Augmentation,
    FitOptions,
    PictureTraining,
    Solver,
    Source,
    find_rate,
    find_source,
    fit_options,
)
from tazza.fitting.option import default_of
from tazza.fitting.training import BEST, LABELS, best_test, waited_since_best
from tazza.images.preprocessing import FILE_NAME
from tazza.models.evaluation import Evaluation
from tazza.models.training import Trainer
from tazza.runtime.files import kind_of

RATES, RATES_PICTURE = "rates.csv", "rates.png"
RESULTS = (*OF_EVERY, LABELS, FILE_NAME, BEST)
"""What a training leaves, beside its settings and data."""
LEAST_SURE = 24
"""Images in the picture of those that the net was least sure of."""
NAMED = 10
"""Pictures that cannot be read are named, up to so many."""
SHARED = ("momentum", "weight_decay", "gamma", "stepsize", "power")
"""Options of optimizers and policies that have an option of the command."""
ELSEWHERE = ("net", "data", "test_data", "patience", "keep_best", "checkpoint_every", "tensorboard", *SHARED)
"""Settings that are no options of `fit`."""


@dataclass(frozen=True, slots=True)
class PictureSettings(StoredSettings):
    """Options of `tazza train NET`, see its help. None stands for what follows from others."""

    net: str | None = None
    data: str = "digits"
    test_data: str | None = None
    size: int | None = None
    colors: str | None = None
    preset: str | None = None
    batch_size: int = default_of(FitOptions, "batch_size")
    epochs: float = default_of(FitOptions, "epochs")
    iterations: int | None = None
    solver: str = default_of(Solver, "name")
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    policy: str = default_of(Solver, "policy")
    gamma: float | None = None
    stepsize: int | None = None
    power: float | None = None
    solver_options: dict[str, str] = field(default_factory=dict[str, str])
    flip: bool = default_of(Augmentation, "flip")
    shift: int = default_of(Augmentation, "shift")
    zoom: float = default_of(Augmentation, "zoom")
    rotate: float = default_of(Augmentation, "rotate")
    light: float = default_of(Augmentation, "light")
    seed: int = default_of(FitOptions, "seed")
    test_share: float = default_of(FitOptions, "test_share")
    start: str | None = None
    freeze: str | None = None
    net_options: dict[str, str] = field(default_factory=dict[str, str])
    patience: int | None = None
    keep_best: bool = False
    net_type: str | None = None
    workers: int | None = None
    checkpoint_every: int | None = None

    def updated(self, given: Mapping[str, Any]) -> PictureSettings:
        """Return the settings with the options that were given.

        Raises:
            ArgumentError: options that do not go together.
        """
        check_length(given)
        length = {"iterations": None} if "epochs" in given else {}
        tables = {name: {**getattr(self, name), **given.get(name, {})} for name in ("solver_options", "net_options")}
        return replace(self, **{**length, **given, **tables})

    def options(self) -> FitOptions:
        """Return them as `tazza.fit` takes them.

        Raises:
            ArgumentError: one is out of its range.
        """
        told = {name: value for name, value in asdict(self).items() if name not in ELSEWHERE}
        named = {name: getattr(self, name) for name in SHARED}
        told["solver_options"] = {name: number_of(text) for name, text in self.solver_options.items()} | {
            name: value for name, value in named.items() if value is not None
        }
        told["net_options"] = {name: number_of(text) for name, text in self.net_options.items()}
        told["freeze"] = () if self.freeze is None else tuple(filter(None, self.freeze.split(",")))
        return fit_options(told)


def number_of(text: str) -> Any:
    """Return what a text says: true or false, a number, numbers with commas between them, or itself.

    >>> number_of("3"), number_of("0.5"), number_of("1,2"), number_of("true"), number_of("exp")
    (3, 0.5, [1, 2], True, 'exp')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "," in text:
        return [number_of(part) for part in text.split(",")]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def train_as_told(told: dict[str, Any]) -> None:
    """Train, or find a rate, as the options of the command say, by name; None where one was left out.

    Raises:
        TazzaError, KeyboardInterrupt: as `train_pictures`.
    """
    own = ("net", "out", "resume", "overwrite", "find_rate", "freeze")
    net, out, resume, overwrite, finds_rate, patterns = (told.pop(name) for name in own)
    tables = {"solver_options": told.pop("set"), "net_options": told.pop("net_option")}
    given = {name: value for name, value in told.items() if value is not None}
    given |= {name: options_of(words) for name, words in tables.items() if words is not None}
    if patterns is not None:
        given["freeze"] = ",".join(patterns)
    if net is None and not (resume and out is not None):
        raise ArgumentError("there is no net to train", hint="tazza train squeezenet --data FOLDER, or --out --resume")
    folder = Path("out") / Path(str(net)).stem if out is None else out
    if finds_rate:
        show_rates(str(net), given, folder)
    else:
        train_pictures(net, given, folder, resume=resume, overwrite=overwrite)


def train_pictures(net: str | None, given: Mapping[str, Any], out: Path, *, resume: bool, overwrite: bool) -> None:
    """Train a net as the options say, and write everything into `out`.

    Args:
        net: a classifier of the zoo, or the path of a model; None: that of the training that goes on.
        given: options by name.
        out: the folder.
        resume: go on with the training that is there; from its beginning where it has no checkpoint yet.
        overwrite: replace the training that is there.

    Raises:
        TazzaError: anything that the user can mend.
        KeyboardInterrupt: it was interrupted.
    """
    if follows():
        follow_pictures()
        return
    console, started = make_console(), time.perf_counter()
    with training_folder(out, RESULTS, resume=resume, overwrite=overwrite):
        settings = (PictureSettings.read(out / SETTINGS) if resume else PictureSettings()).updated(given)
        settings = replace(settings, net=settings.net if net is None else net)
        options, source = settings.options(), _source(console, settings)
        goes_on = resume and kind_of(out / CHECKPOINT) is not None
        job = PicturesJob.made(settings, out / CHECKPOINT if goes_on else None, folder=str(out.absolute()))
        with Counted(console, "pictures", None) as told:
            training = PictureTraining(
                str(settings.net),
                source,
                out,
                options,
                lambda done, _: told(done),
                going_on=goes_on,
                share=share_pictures(job),
            )
        with training:
            if not goes_on:
                remove_results(out, RESULTS)
                settings.write(out / SETTINGS)
            _tell(console, training)
            run = _Run(console, settings, training, out)
            run.go(training.trainer, settings, started, resume=goes_on)


def show_rates(net: str, given: Mapping[str, Any], out: Path) -> None:
    """Find a learning rate, print it, and write what was tried into `out`; no training is begun.

    Raises:
        TazzaError: anything that the user can mend.
    """
    refuse_ranks("--find-rate")
    console = make_console()
    make_writable(out)
    settings = replace(PictureSettings().updated(given), net=net)
    with alone_in(out):
        with Counted(console, "pictures", None) as told:
            found = find_rate(
                net, _source(console, settings), out, settings.options(), progress=lambda done, _: told(done)
            )
        found.write(out / RATES)
        with left_out(console, "picture"):
            found.draw(out / RATES_PICTURE)
    lowest = min(range(len(found.means)), key=lambda at: found.means[at])
    print_text(
        console,
        f"{len(found.rates)} rates tried, from {found.rates[0]:.2g} to {found.rates[-1]:.2g}: the mean loss was lowest,"
        f" {found.means[lowest]:.4g}, at {found.rates[lowest]:.2g}; written to '{out / RATES}'",
    )
    print_text(console, f"a tenth of that is a good beginning: --learning-rate {found.suggested:g}")


def _source(console: Console, settings: PictureSettings) -> Source:
    source = find_source(settings.data, settings.test_data)
    print_text(console, f"{len(source.names)} classes in {source.origin}: {_some(source.names)}")
    return source


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (" ..." if len(names) > NAMED else "")


def _tell(console: Console, training: PictureTraining) -> None:
    data = training.data
    assert data.prepare.size is not None, "pictures have one size"
    H, W = data.prepare.size
    print_text(
        console,
        f"data: {data.databases.train.count} pictures to learn from, {data.databases.test.count} to test on,"
        f" of {W}x{H} pixels, {data.prepare.colors}; {data.nbytes / 2**20:.1f} MiB in"
        f" '{data.databases.train.path.parent}'",
    )
    for told in data.skipped[:NAMED]:
        print_text(console, f"left out: {told}")
    if len(data.skipped) > NAMED:
        print_text(console, f"left out: {len(data.skipped) - NAMED} more")
    if training.taken is not None:
        print_text(console, f"from '{training.options.start}': {training.taken}")
    if training.frozen:
        print_text(console, f"frozen: {len(training.frozen)} parameters: {_some(training.frozen)}")


class _Run(TrainingRun):
    """Pictures, tested after each round through them."""

    tested = "test_accuracy"

    def __init__(self, console: Console, settings: PictureSettings, training: PictureTraining, out: Path) -> None:
        every = training.steps_in_round if settings.checkpoint_every is None else settings.checkpoint_every
        pace = Pace(settings.batch_size, training.iterations)
        super().__init__(console, pace, out, iterations=training.iterations, every=every)
        self.command = f"tazza train net {settings.net}"  # whatever else the name stands for
        self._settings, self._training = settings, training

    def feed(self, trainer: Trainer) -> None:
        """Give the net the batch of the next step."""
        del trainer
        self._training.feed()

    def gives_up(self) -> bool:
        """Whether the best test is too long ago; the other ranks are told."""
        return self._settings.patience is not None and agreed(self._waited())

    def _waited(self) -> bool:
        patience = self._settings.patience
        return patience is not None and waited_since_best(self.history.tests) >= patience

    def test_round(self, trainer: Trainer) -> str | None:
        """Test after each round."""
        training = self._training
        if not training.ends_round(trainer.iteration):
            return None
        tested = self._training.evaluate()
        self._note(trainer, tested)
        return f"epoch {training.rounds(trainer.iteration)}  {self.pace}  test accuracy {tested.accuracy:.2%}"

    def _note(self, trainer: Trainer, tested: Evaluation) -> None:
        """Keep what a test gave; the checkpoint of the best one is kept as well."""
        if trainer.iteration in self.history.tests:
            return
        self.note_test(trainer, {self.tested: tested.accuracy})
        if best_test(self.history.tests) == trainer.iteration:
            trainer.save(self.out / BEST)

    def finish(self, trainer: Trainer, started: float) -> Evaluation:
        """Test, write the nets, draw the pictures, and print the results."""
        training = self._training
        keep = min(LEAST_SURE, training.data.databases.test.count)
        tested = training.evaluate(keep=keep)
        if self._waited():
            self.say(f"ended early: {self._settings.patience} tests were no better than the best one")
        self._note(trainer, tested)
        self.history.write(self.out / HISTORY)
        best = best_test(self.history.tests)
        assert best is not None, "it was tested"
        before = self.history.tests[best] > tested.accuracy
        told = f"; best {self.history.tests[best]:.2%} after iteration {best}" if before else ""
        if self._settings.keep_best and before:
            held = training.best()
            tested = training.evaluate(keep=keep, workspace=held)
            training.export(self.out, held)
            told = f", of the best, after iteration {best}"
        else:
            training.export(self.out)
        self.show_accuracy(trainer, tested, started, beside=told)
        return tested
