"""An observer: which operator was the first to write a number that is none, and into which blob."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tazza.nets import NetBase
from tazza.observers.cost import require_operators
from tazza.operator import Observer, Operator


@dataclass(frozen=True, slots=True)
class NotFinite:
    """An operator that wrote NaN or an infinity, by type and first output, and the blob where it stands."""

    operator: str
    blob: str


@dataclass(slots=True)
class Found:
    """What the observers of one net have seen, in the order in which they saw it."""

    all: list[NotFinite] = field(default_factory=list[NotFinite])

    @property
    def first(self) -> NotFinite | None:
        """Where it began, None where all is well."""
        return self.all[0] if self.all else None


class FiniteObserver(Observer[Operator]):
    """Looks at the outputs of an operator after each run: a pass over all numbers, so for searching only."""

    def __init__(self, found: Found) -> None:
        """Note what it sees in `found`, which observers of one net share."""
        self.found = found

    def stop(self) -> None:
        """Look at what was written; a run that failed may have left outputs without a value."""
        definition = self.subject.definition
        for name, blob in zip(definition.output, self.subject.outputs, strict=True):
            if not blob.is_tensor or not blob.tensor().allocated:
                continue
            numbers = blob.tensor().plain()
            if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
                self.found.all.append(NotFinite(f"{definition.type} {definition.output[0]!r}", name))


def watch_finite(net: NetBase) -> Found:
    """Attach an observer to each operator of a net, and return where they note what they see.

    Raises:
        NetError: the net runs no operators of its definition, as a plan.
    """
    require_operators(net)
    found = Found()
    for operator in net.operators:
        operator.attach(FiniteObserver(found))  # pyright: ignore[reportArgumentType] -- an operator can be observed
    return found
