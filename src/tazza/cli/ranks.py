"""What `tazza train` does as one of several ranks: rank 0 leads as a training of its own does, the others follow.

The leader tells the others what was asked for, once; they build the same nets, take their shares, and run as many
steps. Tests, files and progress are the leader's. Batch sizes are those of joint batches.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from tazza.cli.train_nets import TrainingNets, build
from tazza.cli.train_settings import TrainSettings
from tazza.db.image_source import ImageDB, TrainAndTest
from tazza.errors import ArgumentError
from tazza.models.task import Learning, TrainingTask
from tazza.models.training import Trainer
from tazza.runtime.patience import Patience
from tazza.workspace import Workspace

RANK_VARIABLE = "TAZZA_RANK"
"""Set for processes that `tazza launch` watches."""


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
    if is_rank() and trainer.world is None:
        raise ArgumentError(
            "this training does not run on several ranks", hint="tazza launch train lenet, or train FILE.py"
        )


@dataclass(frozen=True, slots=True)
class Job:
    """What all ranks have to know: options by name, how many steps, and the checkpoint to go on from."""

    settings: dict[str, Any]
    iterations: int
    checkpoint: str | None

    def told(self) -> Self:
        """Return what the leader has; on the leader itself, tell the others."""
        text = tell(json.dumps(asdict(self)))
        return type(self)(**json.loads(text))


@dataclass(frozen=True, slots=True)
class PictureJob(Job):
    """That of LeNet: its data too."""

    data: dict[str, Any]
    trust: bool

    @classmethod
    def of(
        cls, settings: TrainSettings, data: TrainAndTest, iterations: int, checkpoint: Path | None, trust: bool
    ) -> Self:
        """Return the job that the leader has."""
        stored = {name: {**asdict(db), "path": str(db.path.absolute())} for name, db in _databases(data).items()}
        return cls(asdict(settings), iterations, _text(checkpoint), stored, trust)


@dataclass(frozen=True, slots=True)
class TaskJob(Job):
    """That of a program."""

    @classmethod
    def of(cls, settings: Any, iterations: int, checkpoint: Path | None) -> Self:
        """Return the job that the leader has."""
        return cls(asdict(settings), iterations, _text(checkpoint))


def _databases(data: TrainAndTest) -> dict[str, ImageDB]:
    return {"train": data.train, "test": data.test}


def _database(stored: dict[str, Any]) -> ImageDB:
    return replace(ImageDB(**stored), path=Path(stored["path"]))


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def tell(text: str) -> str:
    """Return the leader's text on all ranks.

    Raises:
        ClosedError: a rank is gone.
    """
    from tazza.distributed.membership import TIMEOUT_S
    from tazza.distributed.mpi import MpiRank
    from tazza.ops.distributed.communicator import Entrance

    patience = Patience("for the rank that leads")
    world = MpiRank.enter(Entrance("commands", 1, 0, TIMEOUT_S), patience, lambda _: None)
    content = np.frombuffer(text.encode(), np.uint8)
    length = world.broadcast("length", 0, [np.array([content.size], np.int64)], patience)
    room = content if world.rank == 0 else np.zeros(int(length[0]), np.uint8)
    return bytes(world.broadcast("job", 0, [room], patience)).decode()


def build_share(job: PictureJob) -> TrainingNets:
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
    job = PictureJob({}, 0, None, {}, trust=False).told()
    nets = build_share(job)
    with Trainer(nets.init, nets.train, Workspace(), accuracy=nets.accuracy) as trainer:
        _follow(trainer, job, lambda: None)


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

    job = TaskJob({}, 0, None).told()
    settings = TaskSettings(**job.settings)
    task = share_task(task_of(program, settings.options), job)
    with Learning(task, seed=settings.seed, net_type=settings.net_type, workers=settings.workers) as learning:
        _follow(learning.trainer, job, learning.feed)


def _follow(trainer: Trainer, job: Job, feed: Callable[[], object]) -> None:
    if job.checkpoint is not None:
        trainer.load(job.checkpoint)
    while trainer.iteration < job.iterations:
        feed()
        trainer.step()
