"""Who computes something: engines are asked in turn, and each makes an offer or says that it cannot.

The one rule, for operators and for tasks of tensors alike: engines are asked by rank. Who offers without an estimate of
its time ends the asking: nobody behind it could be compared with it. So does who was asked for by name, but for others
that the same word asks for. Of the offers on the table the least price is taken, or what the first word asked for: the
estimate, and something for the memory that is held. To refuse means "cannot", never "slower".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Generic, TypeVar

from tazza.data_class import dataclass
from tazza.errors import UnsupportedError

BYTES_PER_NS = 50.0
"""How many bytes that are held are worth a nanosecond of every run: a MiB is worth twenty microseconds."""

A = TypeVar("A")
C = TypeVar("C")
T = TypeVar("T")


class Unsupported(UnsupportedError):
    """An engine's answer when it cannot take a task: the reason, for people to read. It is raised, or returned."""

    def __init__(self, reason: str) -> None:
        """Say why."""
        super().__init__(reason)
        self.reason = reason

    def __eq__(self, other: object) -> bool:
        """Whether both say the same."""
        return isinstance(other, Unsupported) and other.reason == self.reason

    def __hash__(self) -> int:
        """Return that of the reason."""
        return hash(self.reason)


def answered(ask: Callable[[], T]) -> T | Unsupported:
    """Return what an engine answers, be it raised or returned.

    >>> def root(x):
    ...     if x < 0:
    ...         raise Unsupported(f"{x} is below 0")
    ...     return x**0.5
    >>> answered(lambda: root(4)), answered(lambda: root(-4))
    (2.0, Unsupported('-4 is below 0'))
    """
    try:
        return ask()
    except Unsupported as refusal:
        return Unsupported(refusal.reason)  # without the frames that this one holds


def accepted(answer: T | Unsupported) -> T:
    """Return an answer that is no refusal.

    Raises:
        Unsupported: it is one.
    """
    if isinstance(answer, Unsupported):
        raise Unsupported(answer.reason)
    return answer


@dataclass(frozen=True, slots=True)
class Offer(Generic[A]):
    """An engine's answer when it takes a task.

    Args:
        run: what computes it, or makes ready what does.
        kernel: what will run, for people to read.
        cached: whether it was there, or made for this task.
        estimate_ns: how long it takes, roughly, by the model of the machine (`runtime.machine`).
        nbytes: bytes that it holds beyond the tensors that are there without it, roughly, as long as it is kept.
    """

    run: A
    kernel: str = ""
    cached: bool = True
    estimate_ns: float | None = None
    nbytes: int = 0

    @property
    def price(self) -> float:
        """What is compared: nanoseconds, those for memory among them; who does not say how long it takes comes last."""
        return price_ns(self.estimate_ns, self.nbytes)

    def __str__(self) -> str:
        told = [self.kernel] if self.kernel else []
        if self.estimate_ns is not None:
            told.append(f"about {self.estimate_ns / 1000:.3g} us")
        if self.nbytes:
            told.append(f"holds {self.nbytes / 2**20:.3g} MiB")
        return ", ".join(told)


def price_ns(estimate_ns: float | None, nbytes: int) -> float:
    """Return what an estimate and memory that is held are worth together."""
    return float("inf") if estimate_ns is None else estimate_ns + nbytes / BYTES_PER_NS


@dataclass(slots=True)
class Asking(Generic[C, A]):
    """Candidates that are asked as far as it takes; `wish` is the place of the word that asked for one by name."""

    candidates: deque[C]
    ask: Callable[[C], Offer[A] | Unsupported]
    wish: Callable[[C], int | None] = lambda candidate: None
    offers: list[tuple[C, Offer[A]]] = field(default_factory=list[tuple[C, Offer[A]]])
    """Those that were not taken, in the order in which they came."""
    refusals: list[tuple[C, str]] = field(default_factory=list[tuple[C, str]])

    def best(self) -> tuple[C, Offer[A]] | None:
        """Take the best offer that is left, None where there is none: ask again where it turns out not to work.

        >>> answers = {"slow": Offer(1, estimate_ns=9.0), "quick": Offer(2, estimate_ns=2.0), "no": Unsupported("!")}
        >>> asking = Asking(deque(answers), answers.__getitem__)
        >>> asking.best()[0], asking.best()[0], asking.best(), asking.refusals
        ('quick', 'slow', None, [('no', '!')])
        """
        while self.candidates and not any(self._ends(offer) for offer in self.offers):
            candidate = self.candidates.popleft()
            answer = answered(partial(self.ask, candidate))
            if isinstance(answer, Unsupported):
                self.refusals.append((candidate, answer.reason))
            else:
                self.offers.append((candidate, answer))
        if not self.offers:
            return None
        return self.offers.pop(min(range(len(self.offers)), key=lambda k: self._price(self.offers[k])))

    def _ends(self, offered: tuple[C, Offer[A]]) -> bool:
        wish = self.wish(offered[0])
        return offered[1].estimate_ns is None if wish is None else wish != self.wish(self.candidates[0])

    def _price(self, offered: tuple[C, Offer[A]]) -> tuple[float, float]:
        """Return what decides: the word that asked, then the price."""
        wish = self.wish(offered[0])
        return float("inf") if wish is None else wish, offered[1].price
