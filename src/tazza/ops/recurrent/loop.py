"""All steps of a sequence as native calls in a row: from the third run on Python is not asked between steps.

When each step was bound, on rows of the same tensors, and is nothing but native calls, these are joined. Constant
state: the calls, and what they rest on. Nobody can tell the difference, but by the clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.operator import Operator
from tazza.operator.bound_section import BoundOperator, Standing, located
from tazza.operator.native_calls import Part, in_pieces, run_parts
from tazza.operator.watch import Watch, Watched, watch_together, watched
from tazza.tensor import Blob, Storage

ROWS = 64
"""Native calls between two questions whether to stop."""


@dataclass(frozen=True, slots=True)
class Loop:
    """See the module; `watch` looks at the blobs of the steps and at those outside whose rows they lie on."""

    each: tuple[Standing, ...]
    watch: Watch
    refreshes: tuple[Part[BoundOperator], ...]
    parts: tuple[Part[BoundOperator], ...]
    written: tuple[Storage, ...]

    @classmethod
    def of(cls, each: Sequence[Standing], outside: Sequence[Blob]) -> Loop | None:
        """Join steps in their order; None where two of them rest on different states of a blob."""
        known: dict[int, Watched] = {id(blob): watched(blob) for blob in outside}
        if not all(watch_together(known, section.watch) for section, _ in each):
            return None
        parts = [part for section, _ in each for part in section.parts]
        return cls(
            tuple(each),
            Watch(known.values(), flags=None),
            tuple({id(one[1]): one for section, _ in each for one in section.refreshes}.values()),
            tuple(in_pieces([row for part in parts for row in part.rows()], ROWS)),
            tuple({id(storage): storage for part in parts for storage in part.written}.values()),
        )

    def stands(self) -> bool:
        """Whether everything is as it was."""
        return all(stands() for _, stands in self.each) and not self.watch.broken()

    def run(self, operator: Operator) -> None:
        """Run all steps of an operator.

        Raises:
            TazzaError: a call failed, or the run has to end.
        """
        run_parts(self.refreshes, (), located)
        run_parts(self.parts, self.written, located, operator.check)
