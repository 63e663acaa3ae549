"""What a program trains: nets, a batch for each step, and figures of what it learned.

A task is a dataclass; its fields are options with defaults. `learn` trains it in this process; the command
`tazza train FILE.py` does so with progress, checkpoints, a history and files of the nets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.models.model import Model
from tazza.models.rate import rates_of
from tazza.models.training import Trainer, TrainingStep, seed_operators
from tazza.runtime.closing import Closing
from tazza.runtime.threads import thread_count
from tazza.workspace import Workspace

Batch = Mapping[str, NDArray[Any]]


@dataclass
class TrainingTask(ABC):
    """Base of tasks.

    >>> import numpy as np
    >>> from tazza.models import sgd
    >>> @dataclass
    ... class Halves(TrainingTask):
    ...     rate: float = 0.1
    ...     def steps(self):
    ...         return 100
    ...     def build(self):
    ...         model = Model("halves")
    ...         model.net.add("SquaredL2Distance", [model.fc("x", "y", 1, 1), "half"], "distances")
    ...         model.add_gradients([model.averaged_loss("distances", "loss")])
    ...         sgd(model, self.rate)
    ...         return model
    ...     def batch(self, number):
    ...         x = np.random.default_rng(number).normal(size=(16, 1)).astype(np.float32)
    ...         return {"x": x, "half": x / 2}
    ...     def test(self, workspace):
    ...         return {"slope": float(workspace.fetch("y_w").item())}
    >>> round(learn(Halves())["slope"], 2)
    0.5
    """

    @abstractmethod
    def steps(self) -> int:
        """Return how many steps it takes, where nobody says otherwise."""

    @abstractmethod
    def build(self) -> Model:
        """Return a model that trains: its net makes `loss`, and updates the parameters."""

    @abstractmethod
    def batch(self, number: int) -> Batch:
        """Return the blobs of a step, by its number from 0.

        The same number gives the same batch: a training that goes on from a checkpoint is then one that never ended.
        """

    def share(self, batch: Batch, rank: int, size: int) -> Batch:
        """Return the part of a batch that is for one of several ranks, which learn together.

        Every array is cut along its first axis into parts of equal length; a task with blobs of which that is not
        true says so by its own method.

        Raises:
            ArgumentError: the parts would not be equal.
        """
        for name, values in batch.items():
            if len(values) % size:
                raise ArgumentError(
                    f"{len(values)} examples of {name!r} cannot be divided among {size} ranks",
                    hint="choose another batch size or number of ranks; bags take a `share` of the task's own",
                )
        return {name: np.split(values, size)[rank] for name, values in batch.items()}

    @abstractmethod
    def test(self, workspace: Workspace) -> Mapping[str, float]:
        """Return figures of what was learned, by name, the most telling one first.

        The parameters can be read in `workspace`; what is fed and made there is gone afterwards.
        """

    def build_predictor(self) -> Model | None:
        """Return a model with the parameters of `model` that predicts, for files; its net declares outputs."""
        return None

    @cached_property
    def model(self) -> Model:
        """The model that trains."""
        return self.build()

    @cached_property
    def predictor(self) -> Model | None:
        """The model that predicts."""
        return self.build_predictor()


class Learning(Closing):
    """A task under way: its nets in a workspace of their own, fed batch by batch."""

    def __init__(
        self, task: TrainingTask, *, seed: int = 1, net_type: str | None = None, workers: int | None = None
    ) -> None:
        """Make the nets and the parameters.

        Args:
            task: what is trained.
            seed: of the operators that draw and have no seed.
            net_type: how the net that trains runs; None: as the task says.
            workers: of parallel types; None: as many as there are threads.

        Raises:
            ArgumentError: the net makes no `loss`, or reads what neither the init net makes nor the batch has.
            TazzaError: whatever is wrong with the nets.
        """
        self.task, self.workspace = task, Workspace()
        init, net = task.model.init_net.proto, task.model.net.proto
        seed_operators(init, seed)
        seed_operators(net, seed + 1)
        if net_type is not None:
            net.type, net.num_workers = net_type, thread_count() if workers is None else workers
        looked_at = ("loss", *rates_of(net))  # some types keep no others
        net.external_output.extend(name for name in looked_at if name not in net.external_output)
        first = task.batch(0)
        self._feed(first)
        self.trainer = Trainer(init, net, self.workspace, accuracy=None, fed=first.keys())

    def close(self) -> None:
        """Let go of the nets and of all blobs; closing twice is allowed."""
        self.trainer.close()
        self.workspace.reset()

    @property
    def parameters(self) -> list[str]:
        """Names of the blobs that are learned, and of what normalizations keep."""
        return list(self.task.model.parameters)

    def feed(self) -> None:
        """Give the net the batch of the next step."""
        self._feed(self.task.batch(self.trainer.iteration))

    def _feed(self, batch: Batch) -> None:
        for name, values in batch.items():
            self.workspace.feed(name, values)

    def step(self) -> TrainingStep:
        """Feed the next batch and learn from it.

        Raises:
            NumericError, TazzaError: see `Trainer.step`.
        """
        self.feed()
        return self.trainer.step()

    def tested(self) -> dict[str, float]:
        """Return the figures of what was learned so far.

        Raises:
            ArgumentError: there are none.
        """
        inner = Workspace(parent=self.workspace, forwarded={name: name for name in self.parameters})
        figures = dict(self.task.test(inner))
        inner.reset()
        if not figures:
            raise ArgumentError(f"the test of {type(self.task).__name__} gives no figure", hint="return one at least")
        return figures


def learn(
    task: TrainingTask, steps: int | None = None, *, seed: int = 1, told: Callable[[TrainingStep], object] | None = None
) -> dict[str, float]:
    """Train a task and return the figures of its test.

    Args:
        task: what is trained.
        steps: how many; None: as many as the task says.
        seed: of the operators that draw.
        told: is called with each step.

    Raises:
        TazzaError: see `Learning` and `Trainer.step`.
    """
    with Learning(task, seed=seed) as learning:
        for _ in range(task.steps() if steps is None else steps):
            step = learning.step()
            if told is not None:
                told(step)
        return learning.tested()
