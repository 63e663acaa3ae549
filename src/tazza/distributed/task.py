"""A task of which one of several ranks learns its share."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.distributed.data_parallel import Exchanging, data_parallel
from tazza.distributed.membership import Membership
from tazza.models.model import Model
from tazza.models.task import Batch, TrainingTask
from tazza.workspace import Workspace


class SharedTask(TrainingTask):
    """A task as one rank has it: the same model, made parallel, and its share of each batch."""

    def __init__(self, task: TrainingTask, membership: Membership, exchanging: Exchanging | None = None) -> None:
        """Take the task, whose model is changed."""
        self._task, self._membership, self._exchanging = task, membership, exchanging

    def steps(self) -> int:
        """Return what the task says."""
        return self._task.steps()

    def build(self) -> Model:
        """Return the model of the task, made parallel."""
        return data_parallel(self._task.model, self._membership, self._exchanging)

    def batch(self, number: int) -> Batch:
        """Return this rank's share of the joint batch."""
        return self._task.share(self._task.batch(number), self._membership.rank, self._membership.size)

    def test(self, workspace: Workspace) -> Mapping[str, float]:
        """Return what the task says."""
        return self._task.test(workspace)

    def build_predictor(self) -> Model | None:
        """Return that of the task."""
        return self._task.predictor
