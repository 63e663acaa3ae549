"""Kinds of tasks that engines compute: who can, who is taken, and why the others are not.

A kind of task, such as the sparse product, is one `Tasks`. A task says where it is to be computed, in which element
type and at which rank. An engine registers a *solver*, `solver(task) -> Offer | Unsupported`, and for which places,
element types and ranks it is: that is a `Dispatch` for each engine. What it has no case for it is not asked.

    @PRODUCTS.solving("onednn", dtype=(DataType.FLOAT, DataType.BFLOAT16), priority=20, help="oneDNN's matmul")
    def matmul(task: ProductForm) -> Offer[Multiply] | Unsupported: ...

Ranking: engines are asked by falling priority, and the least price is taken (see `tensor.offer`). An engine that is
registered again with a higher priority replaces what it was; a lower one is ignored, as in every `Registry`.

State: the registrations, and `_routes`, which engines there are for some coordinates: put aside as a whole when one
registers, so that no thread sees an old route afterwards.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar

from tazza.data_class import dataclass
from tazza.errors import UnsupportedError
from tazza.registry import Registry
from tazza.runtime.cache import Cache
from tazza.tensor.dispatch import Coordinates, Dispatch
from tazza.tensor.dtype import DataType
from tazza.tensor.filling import load_fillers
from tazza.tensor.offer import Asking, Offer, Unsupported, answered
from tazza.tensor.place import CPU_KIND, CPUPlace, Place

ROUTES = 1024
"""Routes that are kept: places times element types times ranks are fewer."""
CPU = CPUPlace()
"""Where tasks are that carry arrays of NumPy."""


class Task(Protocol):
    """What is to be computed; `str()` of it is how messages call it."""

    @property
    def place(self) -> Place:
        """Whose memory the operands are in."""
        ...

    @property
    def dtype(self) -> DataType:
        """The element type that engines are chosen by."""
        ...

    @property
    def rank(self) -> int:
        """The number of axes."""
        ...


T = TypeVar("T", bound=Task)
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Taken(Generic[A]):
    """Who computes a task: the engine and its offer, the offers that were worse, the reasons of those without one."""

    engine: str
    offer: Offer[A]
    others: tuple[tuple[str, Offer[A]], ...] = ()
    refusals: tuple[tuple[str, str], ...] = ()

    @property
    def run(self) -> A:
        """What computes the task."""
        return self.offer.run

    def __str__(self) -> str:
        """One line for each engine: reasons, then worse offers, at the end who is taken."""
        told = str(self.offer)
        return "\n".join(
            [
                *(f"{name}: {reason}" for name, reason in self.refusals),
                *(f"{name}: could, {offer}" for name, offer in self.others),
                f"{self.engine}: taken{f', {told}' if told else ''}",
            ]
        )


Solver: TypeAlias = Callable[[T], "Offer[A] | Unsupported"]
_Route: TypeAlias = "list[tuple[str, int, Solver[T, A] | Unsupported]]"


class Tasks(Generic[T, A]):
    """The engines for one kind of task; see the module.

    Their modules are `engines/<engine>/<filler>.py`, imported when the first task comes.
    """

    def __init__(self, noun: str, filler: str) -> None:
        """Have no engine yet; `noun` is how messages call one."""
        self.noun = noun
        self.filler = filler
        self.generation = 0
        """Changes with every registration: whoever keeps choices puts it into the key."""
        self._engines: Registry[str, Dispatch[[T], Offer[A] | Unsupported]] = Registry(noun)
        self._routes: Cache[Coordinates, _Route[T, A]] = Cache(f"routes to a {noun}", ROUTES)
        self._lock = threading.Lock()

    # -- registration --------------------------------------------------------------------------------------------------

    def register(
        self,
        engine: str,
        solver: Solver[T, A],
        *,
        place: str | Iterable[str] = CPU_KIND,
        dtype: DataType | Iterable[DataType] | None = None,
        rank: int | Iterable[int] | None = None,
        priority: int = 0,
        help: str = "",
    ) -> None:
        """Have an engine asked for tasks of these kinds of place, element types and ranks; None is any.

        Raises:
            DuplicateError: it has a solver for some of them, of the same priority.
        """
        with self._lock:
            cases = self._engines.get(engine)
            if cases is None:
                cases = Dispatch[[T], Offer[A] | Unsupported](f"{self.noun} {engine!r}")
                self._engines.register(engine, cases, help=help)
            cases.case(place=place, dtype=dtype, rank=rank, priority=priority)(solver)
            self._changed()

    def solving(
        self,
        engine: str,
        *,
        place: str | Iterable[str] = CPU_KIND,
        dtype: DataType | Iterable[DataType] | None = None,
        rank: int | Iterable[int] | None = None,
        priority: int = 0,
        help: str = "",
    ) -> Callable[[Solver[T, A]], Solver[T, A]]:
        """Return a decorator that registers a solver."""

        def decorate(solver: Solver[T, A]) -> Solver[T, A]:
            self.register(engine, solver, place=place, dtype=dtype, rank=rank, priority=priority, help=help)
            return solver

        return decorate

    def unregister(self, engine: str) -> None:
        """Forget an engine; meant for tests. Unknown ones are ignored."""
        with self._lock:
            self._engines.unregister(engine)
            self._changed()

    def _changed(self) -> None:
        self._routes = self._routes.another()
        self.generation += 1

    def engines(self) -> list[str]:
        """Return the engines that could be imported, in the order of registration."""
        load_fillers(self.filler)
        return self._engines.registered()

    def __contains__(self, engine: str) -> bool:
        return engine in self.engines()

    def help(self, engine: str) -> str:
        """Return what an engine says of itself; empty when it says nothing or is unknown."""
        return self._engines.help(engine)

    # -- asking --------------------------------------------------------------------------------------------------------

    def ask(self, engine: str, task: T) -> Offer[A] | Unsupported:
        """Return the answer of one engine.

        Raises:
            NotFoundError: no engine is called so.
        """
        reason = load_fillers(self.filler).get(engine)
        if reason is not None:
            return Unsupported(reason)
        return self._answer(_solver_of(self._engines[engine], task.place, task.dtype, task.rank)[1], task)

    def choose(self, task: T, engine: str | None = None) -> Taken[A]:
        """Return who computes a task; `engine` asks for one.

        Raises:
            NotFoundError: no engine is called so.
            UnsupportedError: the engine that was asked for does not take it, or none does.
        """
        missing = load_fillers(self.filler)
        if engine is not None:
            answer = self.ask(engine, task)
            if isinstance(answer, Unsupported):
                message = f"{self.noun} {engine!r} does not take {task}: {answer.reason}"
                raise UnsupportedError(message, hint=f"name no {self.noun}")
            return Taken(engine, answer, refusals=tuple(missing.items()))
        asking = Asking(deque(self._route(task)), lambda one: self._answer(one[2], task))
        found = asking.best()
        refusals = [*missing.items(), *((name, reason) for (name, *_), reason in asking.refusals)]
        if found is None:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in refusals)
            raise UnsupportedError(f"no {self.noun} takes {task} on {task.place}: {reasons}")
        (best, *_), offer = found
        return Taken(best, offer, tuple((name, other) for (name, *_), other in asking.offers), tuple(refusals))

    def _answer(self, solver: Solver[T, A] | Unsupported, task: T) -> Offer[A] | Unsupported:
        """Return what a solver says."""
        return solver if isinstance(solver, Unsupported) else answered(partial(solver, task))

    def _route(self, task: T) -> _Route[T, A]:
        """Return the engines for such tasks in the order in which they are asked."""
        routes = self._routes  # another one after the next registration, which does not get what is found here
        key = (task.place.kind, task.dtype, task.rank)
        found = routes.get(key)
        if found is None:
            cases = [(name, self._engines.get(name)) for name in self._engines.registered()]
            solvers = [
                (name, *_solver_of(one, task.place, task.dtype, task.rank)) for name, one in cases if one is not None
            ]
            found = sorted(solvers, key=lambda one: -one[1])
            routes.put(key, found)
        return found


def _solver_of(
    cases: Dispatch[[T], Offer[A] | Unsupported], place: Place, dtype: DataType, rank: int
) -> tuple[int, Solver[T, A] | Unsupported]:
    """Return the priority and the solver of an engine, or the reason why it has none."""
    entry = cases.entry(place, dtype, rank)
    if entry is None:
        return cases.priority, Unsupported(cases.why_not(place, dtype, rank))
    return entry.priority, entry.value
