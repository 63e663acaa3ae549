"""What a planned net keeps for signatures: the bound instances, each with its arena, those used last.

The flag `plan_kept_mb` bounds what signatures of before hold: the latest one has what it needs. Copies of constants
that the latest one reads as well cost nothing more.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from tazza.nets.plan.instance import Instance
from tazza.runtime.cache import Cache
from tazza.runtime.flags import flag

KEPT_BYTES = flag("plan_kept_mb", 1024, "megabytes that a planned net keeps for signatures of before")
KEPT = 16
"""Signatures for which a net keeps an arena."""


class _Instances(Cache[Hashable, list[Instance]]):
    """By signature; what instances hold is asked of them, since it changes when they are bound."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        """Bytes of arenas, and of copies of constants, which several may read."""
        return _bytes_of([one for known in self.values() for one in known], ())

    def is_over(self) -> bool:
        """Whether those of before take too much: arenas, and the copies that the latest instances do not read."""
        *older, latest = self.values()
        if len(older) >= self.bound:
            return True
        most = self.bound_bytes
        if most is None or not latest:  # which is bound next, to copies of those of before
            return False
        return _bytes_of([one for known in older for one in known], latest) > most


def _bytes_of(instances: Sequence[Instance], without: Iterable[Instance]) -> int:
    copies = {copy for instance in instances for copy in instance.held.values()}
    copies.difference_update(*(instance.held.values() for instance in without))
    return sum(instance.program.arena.nbytes for instance in instances) + sum(copy.nbytes for copy in copies)


INSTANCES: Cache[Hashable, list[Instance]] = _Instances("signatures of a plan", KEPT, lambda: KEPT_BYTES.value << 20)
"""What every planned net has another of."""
