"""Evaluators: what computes a program over arrays. Engines bring theirs; the one in NumPy is always there.

An engine that has a file `lazy.py` brings an evaluator: importing the file registers it here.
Evaluators are asked by priority, the first that does not refuse is taken. A few elements are left to NumPy at once, as
to compile a kernel takes longer than they do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from tazza.errors import UnsupportedError
from tazza.registry import Registry
from tazza.tensor.filling import load_fillers
from tazza.tensor.program import Program

Array: TypeAlias = npt.NDArray[Any]
FEW = 1 << 14
"""Fewer elements than this are not worth a kernel."""


class Task(NamedTuple):
    """A program with its arrays.

    The space of `shape` is swept; sources broadcast to it. Targets have that shape, but for the extent 1 along `axes`,
    which a reduction takes away. Where a target and a source share memory, equal elements are at equal places.
    """

    program: Program
    shape: tuple[int, ...]
    sources: tuple[Array, ...]
    targets: tuple[Array, ...]
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an evaluator does not take a task."""

    reason: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task that is ready to run, as often as one likes; `kernel` says what runs, `cached` whether it was there."""

    run: Callable[[], None]
    kernel: str
    cached: bool


class Evaluator(NamedTuple):
    """One way to compute; `prepare` may be called by several threads at once."""

    name: str
    prepare: Callable[[Task], Prepared | Refusal]
    priority: int = 0


def _load(_: str) -> None:
    load_fillers("lazy")


EVALUATORS: Registry[str, Evaluator] = Registry("evaluator", loader=_load)
"""Name -> evaluator."""


@functools.cache
def _ranked(names: tuple[str, ...]) -> tuple[Evaluator, ...]:
    return tuple(sorted((EVALUATORS[name] for name in names), key=lambda one: -one.priority))


def prepare(task: Task, wanted: str | None = None) -> tuple[str, Prepared, dict[str, str]]:
    """Return the evaluator that takes a task, the task made ready, and what the others said.

    Raises:
        NotFoundError: no evaluator is called `wanted`.
        UnsupportedError: `wanted` refuses.
    """
    if wanted is not None:
        found = EVALUATORS[wanted].prepare(task)
        if isinstance(found, Refusal):
            raise UnsupportedError(f"evaluator {wanted!r} does not take it: {found.reason}", hint="name no evaluator")
        return wanted, found, {}
    size, refused = math.prod(task.shape), dict[str, str]()
    if size < FEW:
        found = EVALUATORS["numpy"].prepare(task)
        if isinstance(found, Prepared):
            return "numpy", found, {"compiled kernels": f"{size} elements < {FEW}, too few to pay for one"}
    refused.update(load_fillers("lazy"))
    for evaluator in _ranked(tuple(EVALUATORS.registered())):
        found = evaluator.prepare(task)
        if isinstance(found, Prepared):
            return evaluator.name, found, refused
        refused[evaluator.name] = found.reason
    reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    raise UnsupportedError(f"no evaluator takes the expression: {reasons}")
