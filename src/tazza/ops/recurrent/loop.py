"""All steps of a sequence as native calls in a row: from the third run on Python is not asked between steps.

When each step was bound, on rows of the same tensors, and is nothing but native calls, these are joined. Constant
state: the calls, and what they rest on. Nobody can tell the difference, but by the clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.errors import TazzaError
from tazza.operator import Operator
from tazza.operator.native_calls import BoundCalls, Part, in_pieces, run_parts
from tazza.operator.reorder import Refresh
from tazza.operator.watch import Watch, Watched, watch_together, watched
from tazza.tensor import Blob, Storage

ROWS = 64
"""Native calls between two questions whether to stop."""


@dataclass(frozen=True, slots=True)
class Loop:
    """See the module; `watch` looks at the blobs of the steps and at those outside whose rows they lie on."""

    each: tuple[BoundCalls, ...]
    watch: Watch
    refreshes: tuple[tuple[Operator, Refresh], ...]
    parts: tuple[Part[Operator], ...]
    written: tuple[Storage, ...]

    @classmethod
    def of(cls, each: Sequence[BoundCalls], outside: Sequence[Blob]) -> Loop | None:
        """Join steps in their order; None where two of them rest on different states of a blob."""
        known: dict[int, Watched] = {id(blob): watched(blob) for blob in outside}
        if not all(watch_together(known, bound.watch) for bound in each):
            return None
        refreshes = {id(refresh): (operator, refresh) for bound in each for operator, refresh in bound.refreshes}
        calls = [pair for bound in each for pair in bound.calls]
        return cls(
            tuple(each),
            Watch(known.values(), flags=None),
            tuple(refreshes.values()),
            tuple(in_pieces(calls, ROWS)),
            tuple({id(storage): storage for bound in each for storage in bound.written}.values()),
        )

    def stands(self) -> bool:
        """Whether everything is as it was."""
        return all(bound.stands() for bound in self.each) and not self.watch.broken()

    def run(self, operator: Operator) -> None:
        """Run all steps of an operator.

        Raises:
            TazzaError: a call failed, or the run has to end.
        """
        run_parts((((owner,), refresh) for owner, refresh in self.refreshes), (), _located)
        run_parts(self.parts, self.written, _located, operator.check)


def _located(error: Exception, owners: tuple[Operator, ...]) -> TazzaError:
    return owners[0].located(error)
