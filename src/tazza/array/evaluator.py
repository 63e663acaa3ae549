"""Evaluators: what computes a program over arrays. Engines bring theirs; the one in NumPy is always there.

An engine that has a file `lazy.py` brings an evaluator, which fills `EVALUATORS`.
They are asked as tensor/tasks.py says. A few elements are left to NumPy at once, as to compile a kernel takes longer
than they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from tazza.array.program import ElementProgram
from tazza.data_class import dataclass
from tazza.tensor.dtype import DataType
from tazza.tensor.offer import Offer
from tazza.tensor.place import Place
from tazza.tensor.tasks import CPU, Tasks

Array: TypeAlias = npt.NDArray[Any]
FEW = 1 << 14
"""Fewer elements than this are not worth a kernel."""


class Sweep(NamedTuple):
    """A program with its arrays.

    The space of `shape` is swept; sources broadcast to it. Targets have that shape, but for the extent 1 along `axes`,
    which a reduction takes away. Where a target and a source share memory, equal elements are at equal places.
    """

    program: ElementProgram
    shape: tuple[int, ...]
    sources: tuple[Array, ...]
    targets: tuple[Array, ...]
    axes: tuple[int, ...] = ()
    place: Place = CPU

    @property
    def dtype(self) -> DataType:
        """The element type of the first target."""
        return self.program.targets[0]

    @property
    def rank(self) -> int:
        """The number of axes that are swept."""
        return len(self.shape)

    def __str__(self) -> str:
        return "it"


@dataclass(frozen=True, slots=True)
class Prepared(Offer[Callable[[], None]]):
    """A task that is ready to run, as often as one likes."""


EVALUATORS: Tasks[Sweep, Callable[[], None]] = Tasks("evaluator", "lazy")


def prepare(task: Sweep, wanted: str | None = None) -> tuple[str, Offer[Callable[[], None]], dict[str, str]]:
    """Return the evaluator that takes a task, the task made ready, and what the others said.

    Raises:
        NotFoundError: no evaluator is called `wanted`.
        UnsupportedError: `wanted` refuses, or all do.
    """
    size = math.prod(task.shape)
    if wanted is None and size < FEW:
        found = EVALUATORS.ask("numpy", task)
        if isinstance(found, Offer):
            return "numpy", found, {"compiled kernels": f"{size} elements < {FEW}, too few to pay for one"}
    choice = EVALUATORS.choose(task, wanted)
    return choice.engine, choice.offer, dict(choice.refusals)
