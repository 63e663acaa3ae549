"""What clones of a planned net have in common: how it was rewritten, and which of its inputs turned out to be data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tazza.nets.plan.rewrite import Rewrite
from tazza.runtime.fork import Guard

CHANGES = 3
"""How often a blob that was taken for constant may change before it is taken for data."""


class Shared:
    """What clones of a net have in common; `lock` guards it.

    `variable` are inputs that changed too often to be taken for constant, `changes` how often each did.
    """

    def __init__(self) -> None:
        self.lock = Guard("a net of type plan")
        self.rewrite: Rewrite | None = None
        self.variable: set[str] = set()
        self.changes: Counter[str] = Counter()

    def note_changes(self, names: Iterable[str]) -> bool:
        """Count changes of constants; tell whether one of them is data from now on."""
        names = list(names)
        self.changes.update(names)
        varying = {name for name in names if self.changes[name] >= CHANGES}
        self.variable |= varying
        if varying:
            self.rewrite = None
        return bool(varying)
