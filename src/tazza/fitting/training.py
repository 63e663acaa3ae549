"""A net that learns to sort pictures: its nets and data made ready, a step at a time, its tests and its files.

    with PictureTraining("resnet50", find_source("photos"), Path("out"), FitOptions(size=64)) as training:
        for step in training.steps():
            print(step.loss)
        print(training.evaluate().accuracy)
        training.export(Path("out"))

`tazza.fit` and `tazza train NET` are loops around it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from tazza.data_class import dataclass
from tazza.db.image_source import TEST_SHARE
from tazza.db.images import Progress, no_progress
from tazza.errors import ArgumentError, FormatError
from tazza.fitting.augmentation import Augmentation
from tazza.fitting.batches import PictureBatches
from tazza.fitting.data import PictureData, look, prepare_pictures
from tazza.fitting.network import (
    DATA_BYTES,
    FittedNets,
    Values,
    fitted_nets,
    freeze,
    model_of,
    predictor_preprocessing,
    without_gradient_of_data,
    zoo_model,
    zoo_preprocessing,
)
from tazza.fitting.option import check_types
from tazza.fitting.records import PictureRecords
from tazza.fitting.share import WHOLE, Share
from tazza.fitting.solver import Solver
from tazza.fitting.source import Source
from tazza.fitting.transfer import (
    Taken,
    beside,
    load_model,
    parameters_in,
    stored_preprocessing,
    take_parameters,
)
from tazza.images.labels import read_labels
from tazza.images.preprocessing import FILE_NAME, PRESETS, Preprocessing
from tazza.interop import save_nets
from tazza.interop.model_folder import INIT, PREDICT
from tazza.models.evaluation import Evaluation, Outputs, evaluate
from tazza.models.model import Model
from tazza.models.training import CHECKPOINT_TYPE, Trainer, TrainingStep, seed_operators
from tazza.models.zoo import CLASSIFIERS
from tazza.models.zoo.classifier import DATA, LABEL, SOFTMAX, Classifier
from tazza.nets import NETS
from tazza.operator import operator_def
from tazza.runtime.closing import Closing
from tazza.runtime.files import kind_of, resolved, shown, write_bytes_atomically
from tazza.runtime.modules import load_module
from tazza.runtime.threads import thread_count
from tazza.workspace import Workspace

LABELS, BEST, DATABASES = "labels.txt", "best.minidb", "data"
"""What lies in the folder of a training, beside its preprocessing."""


COLORS = ("rgb", "bgr", "grey")
"""Colours that pictures may get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """How a net is trained; None stands for what follows from the net and the data.

    Args:
        size: height and width that pictures get.
        colors: `rgb`, `bgr` or `grey`.
        preset: `imagenet` or `caffe`: the numbers that pictures become, for nets that were trained so; else their mean
            and deviation, or what lies beside the model that is gone on from.
        batch_size: pictures of a step.
        epochs: rounds through the pictures, where `iterations` are not said.
        iterations: steps.
        solver: how the net learns.
        augmentation: what pictures go through by chance.
        seed: of first parameters, order, augmentation, and of what is held back.
        test_share: how much of every class is held back for tests, where the data bring nothing for these.
        start: a model whose parameters are taken over, by name and shape.
        freeze: patterns of names of parameters that stay as they are, such as `conv*`.
        net_options: of the builder of a net of the zoo, such as `width`.
        net_type: how the net that trains runs.
        workers: of parallel types.
    """

    size: int | None = None
    colors: str | None = None
    preset: str | None = None
    batch_size: int = 32
    epochs: float = 10.0
    iterations: int | None = None
    solver: Solver = field(default_factory=Solver)
    augmentation: Augmentation = field(default_factory=Augmentation)
    seed: int = 1
    test_share: float = TEST_SHARE
    start: str | os.PathLike[str] | None = None
    freeze: Sequence[str] = ()
    net_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    net_type: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        check_types(self)
        for name, kind in (("solver", Solver), ("augmentation", Augmentation)):
            if not isinstance(getattr(self, name), kind):
                raise ArgumentError(f"{name} = {getattr(self, name)!r:.60}", hint=f"pass a {kind.__name__}")
        for name, least in (("batch_size", 1), ("epochs", 0), ("seed", 0), ("iterations", 1), ("size", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ArgumentError(f"{name} = {value}", hint=f"{least} or more")
        if self.colors is not None and self.colors not in COLORS:
            raise ArgumentError(f"colors = {self.colors!r}", hint=f"one of {', '.join(COLORS)}")

    def steps_of(self, pictures: int) -> int:
        """Return how many steps are wanted, over so many pictures."""
        if self.iterations is not None:
            return self.iterations
        return max(1, -int(-self.epochs * pictures // self.batch_size))


class PictureTraining(Closing):
    """A training under way. Its nets, parameters and batches are its own; close it, or use it in a `with` block."""

    def __init__(
        self,
        net: str | os.PathLike[str],
        source: Source,
        folder: Path,
        options: FitOptions,
        progress: Progress = no_progress,
        *,
        going_on: bool = False,
        share: Share = WHOLE,
    ) -> None:
        """Decode the pictures into `folder`, where they do not lie there already, and make the nets.

        Args:
            net: a classifier of the zoo by name; a program (.py) that declares one, see `find_classifier`; or a folder
                with the nets of a model, its predict net, or a predictor file.
            source: the pictures.
            folder: for databases and checkpoints.
            options: how to train.
            progress: is told of the pictures that are decoded.
            going_on: the training goes on that these databases were made for; those of others are refused.
            share: what this rank has of the training, which several learn together.

        Raises:
            ArgumentError: options that do not go together, or not with the net.
            TazzaError: net or data are missing, broken, or do not fit each other.
        """
        self.options, self.folder = options, folder
        if options.net_type is not None:
            NETS[options.net_type]
        chosen = _Net.find(str(net), source, options)
        if chosen.prepare.size is not None:
            options.augmentation.check(chosen.prepare.size)
        self.data: PictureData = prepare_pictures(
            source,
            folder / DATABASES,
            chosen.prepare,
            seed=options.seed,
            test_share=options.test_share,
            measured=chosen.measured,
            going_on=going_on,
            progress=progress,
        )
        self.iterations = options.steps_of(self.data.databases.train.count)
        """Steps that are wanted."""
        self.model = without_gradient_of_data(chosen.made(self.data, options.net_options))
        self.frozen = freeze(self.model, options.freeze)
        """Parameters that stay as they are."""
        options.solver.add_to(self.model, self.iterations)
        self.nets = self._made_nets()
        self.batches = self._made_batches(share)
        self.workspace = Workspace()
        try:
            self._feed(0)
            share.prepared()
            init, train = share.nets(self.nets.init, self.nets.train)
            self.trainer = Trainer(init, train, self.workspace, fed=(DATA, LABEL))
            self.taken = self._take(chosen.values)
        except BaseException:
            self.batches.close()
            self.workspace.reset()
            raise

    def _made_batches(self, share: Share) -> PictureBatches:
        options, records = self.options, PictureRecords(self.data.databases.train)
        return PictureBatches(
            records, options.batch_size, self.data.prepare, options.augmentation, options.seed, share=share
        )

    def _made_nets(self) -> FittedNets:
        options = self.options
        nets = fitted_nets(self.model, self.data.prepare, self.data.databases.test, options.batch_size)
        seed_operators(nets.init, options.seed)
        seed_operators(nets.train, options.seed + 1)
        if options.net_type is not None:
            for net in (nets.train, nets.test):
                net.type = options.net_type
                net.num_workers = thread_count() if options.workers is None else options.workers
        return nets

    def _take(self, values: Values) -> Taken | None:
        for name, value in values.items():
            self.workspace.feed(name, value)
        start = self.options.start
        if start is None:
            return None
        with load_model(start) as predictor:
            return take_parameters(
                self.workspace, map(str, self.model.parameters), parameters_in(predictor), f"'{start}'"
            )

    def close(self) -> None:
        """Let go of nets, blobs and databases; closing twice is allowed."""
        self.batches.close()
        self.trainer.close()
        self.workspace.reset()

    # -- steps ---------------------------------------------------------------------------------------------------------

    @property
    def steps_in_round(self) -> int:
        """Steps of a round through the pictures, rounded down, one at least."""
        return max(1, self.data.databases.train.count // self.options.batch_size)

    def rounds(self, iteration: int) -> int:
        """Return how many rounds through the pictures so many steps have ended."""
        return max(iteration, 0) * self.options.batch_size // self.data.databases.train.count

    def ends_round(self, iteration: int) -> bool:
        """Whether a step ended a round."""
        return self.rounds(iteration) > self.rounds(iteration - 1)

    def feed(self) -> None:
        """Give the net the batch of the next step."""
        self._feed(self.trainer.iteration)

    def _feed(self, number: int) -> None:
        for name, values in self.batches.batch(number).items():
            self.workspace.feed(name, values)

    def steps(self) -> Iterator[TrainingStep]:
        """Learn to the end, and yield each step.

        Raises:
            NumericError, TazzaError: see `Trainer.step`.
        """
        while self.trainer.iteration < self.iterations:
            self.feed()
            yield self.trainer.step()

    # -- what was learned ----------------------------------------------------------------------------------------------

    def evaluate(self, *, keep: int = 0, workspace: Workspace | None = None) -> Evaluation:
        """Test what was learned so far, or the parameters that another workspace holds; `keep` as `evaluate`."""
        return evaluate(
            self.workspace if workspace is None else workspace,
            self.nets.test_init,
            self.nets.test,
            parameters=self.nets.parameters,
            count=self.data.databases.test.count,
            keep=keep,
            outputs=Outputs(image=DATA_BYTES, blue_first=self.data.prepare.colors.startswith("bgr")),
            names=self.data.names,
        )

    def best(self) -> Workspace:
        """Return the parameters of the best test, from the checkpoint that was written then.

        Raises:
            FileError, FormatError: it is not there, or broken.
        """
        made = Workspace()
        place = str(resolved(self.folder / BEST))
        names = self.nets.parameters
        made.run_operator(operator_def("Load", [], names, db=place, db_type=CHECKPOINT_TYPE, absolute_path=1))
        return made

    def core(self) -> Any:
        """Return the net that trains as others may have it: how it runs here is no matter of theirs."""
        made = type(self.nets.train)()
        made.CopyFrom(self.nets.train)
        made.ClearField("type")
        made.ClearField("num_workers")
        return made

    def export(self, folder: Path, workspace: Workspace | None = None) -> None:
        """Write the nets that predict, what the classes are called, and how pictures come to the nets.

        `tazza predict FOLDER photo.jpg` and `tazza.load(folder)` take these.

        Raises:
            FileError: they cannot be written.
        """
        held = self.workspace if workspace is None else workspace
        save_nets(
            folder / INIT,
            folder / PREDICT,
            self.core(),
            held,
            outputs=[SOFTMAX],
            parameters=self.nets.parameters,
        )
        write_labels(folder / LABELS, self.data.names)
        self.data.prepare.write(folder / FILE_NAME)


def write_labels(path: Path, names: Sequence[str]) -> None:
    """Write what classes are called, one a line; numbered, where lines would be read otherwise than they are meant.

    Raises:
        FileError: it cannot be written.
    """
    for lines in (list(names), [f"{number}: {name}" for number, name in enumerate(names)]):
        write_bytes_atomically(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        with suppress(FormatError):
            if read_labels(path) == tuple(names):
                return


# -- best tests, and when to stop --------------------------------------------------------------------------------------


def best_test(tests: Mapping[int, float]) -> int | None:
    """Return the iteration whose test was best, the first of several; None without any.

    >>> best_test({10: 0.5, 20: 0.75, 30: 0.75})
    20
    """
    return max(sorted(tests), key=lambda at: tests[at], default=None)


def waited_since_best(tests: Mapping[int, float]) -> int:
    """Return how many tests came after the best one.

    >>> waited_since_best({10: 0.5, 20: 0.75, 30: 0.75})
    1
    """
    best = best_test(tests)
    return 0 if best is None else sum(at > best for at in tests)


def find_classifier(name: str) -> Classifier | None:
    """Return a classifier of the zoo, or the one that a program (.py) declares; None where the name is another's.

    A program is run once. It has a function under `tazza.models.zoo.classifier(channels=..., size=..., classes=...)`.

    Raises:
        InitError: the program is missing, or fails.
        ArgumentError: it declares none, or several.
    """
    if not name.endswith(".py"):
        return CLASSIFIERS.get(name)
    path = load_module(Path(name)).path
    all_of_them = [CLASSIFIERS[key] for key in CLASSIFIERS.keys()]
    found = [each for each in all_of_them if path is not None and inspect.getfile(each.scores) == path]
    if len(found) != 1:
        names = ", ".join(each.name for each in found) if found else "none"
        raise ArgumentError(
            f"{shown(name)} declares {names} of the classifiers that can be trained, and one is needed",
            hint="put tazza.models.zoo.classifier(channels=3, size=32, classes=10) over a function that makes scores",
        )
    return found[0]


# -- the net -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Net:
    """A net that was found, how pictures come to it, and whether their mean and deviation are to be those measured."""

    name: str
    prepare: Preprocessing
    measured: bool
    renewed: bool = False
    values: Values = field(default_factory=dict[str, Any])

    @staticmethod
    def find(name: str, source: Source, options: FitOptions) -> _Net:
        seen, classifier = look(source), find_classifier(name)
        path = name if classifier is None and options.start is None else options.start
        stored = None if path is None else stored_preprocessing(path)
        if classifier is None and kind_of(name) is None:
            raise ArgumentError(
                f"{name!r} is no net of the zoo, and nothing lies there; {CLASSIFIERS.near(name)}",
                hint=f"nets: {', '.join(sorted(CLASSIFIERS.keys()))}; or a folder with a model, or a program (.py)",
            )
        if classifier is not None:
            size, colors = options.size, options.colors
            if stored is not None and size is None and stored.size is not None:
                size = stored.size[0]
            if stored is not None and colors is None:
                colors = stored.colors
            prepare = zoo_preprocessing(classifier, seen, size, colors)
        else:
            with load_model(name) as predictor:
                prepare = predictor_preprocessing(predictor, stored, seen, size=options.size, colors=options.colors)
        same_colors = stored is not None and stored.channels == prepare.channels
        known = _numbers_of(stored if same_colors else None, options.preset)
        if known is not None:
            prepare = replace(prepare, scale=known.scale, mean=known.mean, std=known.std)
        if options.preset is not None and options.colors is None and prepare.channels == 3:
            assert known is not None, "it was looked up"
            prepare = replace(prepare, colors=known.colors)
        labels = beside(name, LABELS)
        renewed = classifier is None and kind_of(labels) is not None and read_labels(labels) != source.names
        return _Net(name, prepare, known is None, renewed)

    def made(self, data: PictureData, options: Mapping[str, Any]) -> Model:
        """Return the net with its gradients; `values` are then those of its parameters that are known."""
        classifier = find_classifier(self.name)
        if classifier is not None:
            return zoo_model(classifier, data.prepare, len(data.names), options)
        if options:
            raise ArgumentError(f"{self.name!r} is a model, and takes no {min(options)!r}", hint="leave the option out")
        with load_model(self.name) as predictor:
            model, values = model_of(predictor, len(data.names), renewed=self.renewed)
        self.values.update(values)
        return model


def _numbers_of(stored: Preprocessing | None, preset: str | None) -> Preprocessing | None:
    """Return what says scale, mean and deviation; None: the pictures do."""
    if preset is None:
        return stored
    if preset not in PRESETS:
        raise ArgumentError(f"there is no preset {preset!r}", hint=f"presets: {', '.join(PRESETS)}")
    return PRESETS[preset]
