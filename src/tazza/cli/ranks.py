"""What `tazza train` does as one of several ranks: rank 0 leads as a training of its own does, the others follow.

The leader tells the others what was asked for, once; they build the same nets, take their shares, and run as many
steps. Tests, files and progress are the leader's. Batch sizes are those of joint batches.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tazza.cli.train_nets import TrainingNets, build
from tazza.cli.train_settings import TrainSettings
from tazza.data_class import dataclass
from tazza.db.image_source import ImageDB, TrainAndTest
from tazza.errors import ArgumentError
from tazza.models.listener import TrainingListener
from tazza.models.task import Learning, TrainingTask
from tazza.models.training import Trainer
from tazza.ops.distributed.communicator import CommonWorld, Entrance
from tazza.runtime.patience import Patience
from tazza.workspace import Workspace

if TYPE_CHECKING:
    from tazza.distributed.membership import Membership
    from tazza.fitting.share import Share

RANK_VARIABLE = "TAZZA_RANK"
"""Set for processes that `tazza launch` watches."""


TRACE_VARIABLE = "TAZZA_RANK_TRACE"
"""Set to the file in which the trace of all ranks is wanted."""


def is_rank() -> bool:
    """Whether this process is one of several ranks."""
    return RANK_VARIABLE in os.environ


def follows() -> bool:
    """Whether another rank leads."""
    if not is_rank():
        return False
    from tazza.distributed.membership import mpi_membership

    return not mpi_membership().leads


def check_ranks(trainer: Trainer) -> None:
    """Check that a training that was started on several ranks takes them.

    Raises:
        ArgumentError: it would train the whole on each of them.
    """
    if trainer.world is None:
        refuse_ranks("this training")


def refuse_ranks(what: str) -> None:
    """Refuse what each of several ranks would do by itself.

    Raises:
        ArgumentError: this is one of several.
    """
    if is_rank():
        raise ArgumentError(f"{what} does not run on several ranks", hint="leave `tazza launch --ranks` out")


@dataclass(frozen=True, slots=True)
class Job:
    """What all ranks have to know: options by name, and the checkpoint to go on from."""

    settings: dict[str, Any]
    checkpoint: str | None

    @classmethod
    def made(cls, settings: Any, checkpoint: Path | None, **more: Any) -> Self:
        """Return the job that the leader has; `more` is what a kind of job has beside that."""
        return cls(asdict(settings), None if checkpoint is None else str(checkpoint.absolute()), **more)

    def told(self) -> Self:
        """Return what the leader has; on the leader itself, tell the others."""
        text = tell(json.dumps(asdict(self)))
        return type(self)(**json.loads(text))


@dataclass(frozen=True, slots=True)
class LenetJob(Job):
    """That of LeNet: how many steps, and its data too."""

    iterations: int
    data: dict[str, Any]
    trust: bool

    @classmethod
    def of(
        cls, settings: TrainSettings, data: TrainAndTest, iterations: int, checkpoint: Path | None, trust: bool
    ) -> Self:
        """Return the job that the leader has."""
        stored = {name: {**asdict(db), "path": str(db.path.absolute())} for name, db in _databases(data).items()}
        return cls.made(settings, checkpoint, iterations=iterations, data=stored, trust=trust)


@dataclass(frozen=True, slots=True)
class TaskJob(Job):
    """That of a program: how many steps too."""

    iterations: int


@dataclass(frozen=True, slots=True)
class PicturesJob(Job):
    """That of a net that learns pictures: the folder with their databases too."""

    folder: str


def _databases(data: TrainAndTest) -> dict[str, ImageDB]:
    return {"train": data.train, "test": data.test}


def _database(stored: dict[str, Any]) -> ImageDB:
    return replace(ImageDB(**stored), path=Path(stored["path"]))


@cache
def _commands() -> CommonWorld:
    """Return the world in which the leader says what is done."""
    from tazza.distributed.membership import TIMEOUT_S
    from tazza.distributed.mpi import MpiRank

    patience = Patience("for the rank that leads")
    return MpiRank.enter(Entrance("commands", 1, 0, TIMEOUT_S), patience, lambda _: None)


def tell(text: str) -> str:
    """Return the leader's text on all ranks.

    Raises:
        ClosedError: a rank is gone.
    """
    patience, world = Patience("for the rank that leads"), _commands()
    content = np.frombuffer(text.encode(), np.uint8)
    length = world.broadcast("length", 0, [np.array([content.size], np.int64)], patience)
    room = content if world.rank == 0 else np.zeros(int(length[0]), np.uint8)
    return bytes(world.broadcast("job", 0, [room], patience)).decode()


def agreed(ended: bool) -> bool:
    """Return on all ranks whether the leader has come to an end; all ask as often.

    Raises:
        ClosedError: a rank is gone.
    """
    return tell("ended" if ended else "") != "" if is_rank() else ended


def build_share(job: LenetJob) -> TrainingNets:
    """Return the nets of a training of pictures, as this process has them; on the leader, tell the others of the job.

    Raises:
        ArgumentError: the batch cannot be divided among the ranks.
        TazzaError: see `train_nets.build`.
    """
    settings = TrainSettings(**job.settings)
    data = TrainAndTest(**{name: _database(stored) for name, stored in job.data.items()})
    if not is_rank():
        return build(settings, data, job.iterations, trust=job.trust)
    from tazza.distributed.data_parallel import parallel_nets
    from tazza.distributed.membership import mpi_membership

    own = mpi_membership()
    share = replace(settings, batch_size=own.share_of(settings.batch_size))
    nets = build(share, data, job.iterations, trust=job.trust)
    if own.leads:
        job.told()
    init, train = parallel_nets(nets.init, nets.train, own)
    return replace(nets, init=init, train=train)


def follow_lenet() -> None:
    """Train as the leader does, and write nothing."""
    job = LenetJob({}, None, 0, {}, trust=False).told()
    nets = build_share(job)
    with Trainer(nets.init, nets.train, Workspace(), accuracy=nets.accuracy) as trainer:
        _follow(trainer, job, job.iterations, lambda: None)


def share_task(task: TrainingTask, job: Job) -> TrainingTask:
    """Return a task as this process has it; on the leader, tell the others of the job."""
    if not is_rank():
        return task
    from tazza.distributed.membership import mpi_membership
    from tazza.distributed.task import SharedTask

    own = mpi_membership()
    if own.leads:
        job.told()
    return SharedTask(task, own)


def follow_task(program: Path) -> None:
    """Train as the leader does, and write nothing."""
    from tazza.cli.train_task import TaskSettings, task_of

    job = TaskJob({}, None, 0).told()
    settings = TaskSettings(**job.settings)
    task = share_task(task_of(program, settings.options), job)
    with Learning(task, seed=settings.seed, net_type=settings.net_type, workers=settings.workers) as learning:
        _follow(learning.trainer, job, job.iterations, learning.feed)


def share_pictures(job: PicturesJob) -> Share:
    """Return what this process has of a training of pictures; the leader tells the others when the databases lie there.

    Raises:
        ArgumentError: the batch cannot be divided among the ranks.
    """
    from tazza.fitting.share import WHOLE

    if not is_rank():
        return WHOLE
    from tazza.distributed.membership import mpi_membership
    from tazza.distributed.pictures import RankShare

    own = mpi_membership()
    return RankShare.of(own, job.settings["batch_size"], job.told if own.leads else lambda: None)


def follow_pictures() -> None:
    """Train as the leader does, and write nothing."""
    from tazza.cli.train_pictures import PictureSettings
    from tazza.fitting import PictureTraining, find_source

    job = PicturesJob({}, None, "").told()
    settings = PictureSettings(**job.settings)
    source, share = find_source(settings.data, settings.test_data), share_pictures(job)
    training = PictureTraining(
        str(settings.net), source, Path(job.folder), settings.options(), going_on=True, share=share
    )
    with training:
        ended = settings.patience is not None
        _follow(training.trainer, job, training.iterations, training.feed, lambda: ended and agreed(False))


def share_texts(job: Job) -> Membership:
    """Return which of the ranks that learn a text this process is; on the leader, tell the others of the job.

    Raises:
        ArgumentError: the texts side by side cannot be divided among the ranks.
    """
    from tazza.distributed.membership import Membership, mpi_membership

    if not is_rank():
        return Membership()
    own = mpi_membership()
    own.share_of(job.settings["batch_size"])
    if own.leads:
        job.told()
    return own


def follow_text() -> None:
    """Train as the leader does, and write nothing."""
    from tazza.cli.train_text import TextLearning, TextSettings

    job = Job({}, None).told()
    with TextLearning(TextSettings(**job.settings), share_texts(job)) as learning:
        _follow(learning.trainer, job, learning.iterations, learning.feed)


def rank_listeners() -> list[TrainingListener]:
    """Return who is told of the steps on every rank of several."""
    path = os.environ.get(TRACE_VARIABLE, "")
    if not is_rank() or not path:
        return []
    from tazza.distributed.tracing import StepsTraced

    return [StepsTraced(path)]


def _follow(
    trainer: Trainer,
    job: Job,
    iterations: int,
    feed: Callable[[], object],
    ended: Callable[[], bool] = lambda: False,
) -> None:
    if job.checkpoint is not None:
        trainer.load(job.checkpoint)
    with ExitStack() as held:
        listeners = [held.enter_context(each) for each in rank_listeners()]
        while trainer.iteration < iterations and not ended():
            feed()
            step = trainer.step()
            for listener in listeners:
                listener.stepped(trainer, step)
        for listener in listeners:
            listener.finished(trainer, None)
