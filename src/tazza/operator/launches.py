"""Launches that equal operators share: a step net of T steps prepares once, though each step has operators of its own.

A `Launch` knows no addresses, so what one operator prepared serves every other one with the same definition, for the
same signature, as long as nobody registered another schema or kernel in between.

State: `_kept`, in the order in which they were asked for, and the counts, change under `_lock`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from tazza.device import place_of
from tazza.operator.choice import Chosen, find_kernel
from tazza.operator.engine import Candidate, why_unavailable
from tazza.operator.schema import OpSchema
from tazza.operator.view import OpView
from tazza.proto import OperatorDef
from tazza.runtime.fork import freed_in_child

KEPT = 8
"""Signatures of which an operator keeps the launch itself."""
BOUND = 1024
"""Launches that are kept for others, beside those that living operators hold."""
DEFINITION_BYTES = 1 << 14
"""Operators with more than that in their definition (the weights of a model, say) share with nobody."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """How a cache does: how many it holds of how many at most, and how often it had what was asked for."""

    name: str
    held: int
    bound: int
    hits: int
    misses: int


class LaunchCache:
    """At most `bound` launches; what nobody asked for the longest goes first."""

    name = "launches"

    def __init__(self, bound: int = BOUND) -> None:
        """Start empty."""
        self.bound = bound
        self._kept: OrderedDict[Hashable, tuple[OpSchema, Chosen]] = OrderedDict()
        self._lock = freed_in_child(threading.Lock())
        self._hits = self._misses = 0

    def get(self, key: Hashable, schema: OpSchema, kind: str) -> Chosen | None:
        """Return what was prepared under a key by these very declarations of schema and kernel, or None."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found[0] is schema and self._stands(found[1], kind):
                self._hits += 1
                self._kept.move_to_end(key)
                return found[1]
            self._misses += 1
            return None

    @staticmethod
    def _stands(chosen: Chosen, kind: str) -> bool:
        type, engine = chosen.kernel.type, chosen.kernel.engine
        return why_unavailable(type, kind, engine) is None and find_kernel(type, kind, engine) is chosen.kernel

    def keep(self, key: Hashable, schema: OpSchema, chosen: Chosen) -> None:
        """Remember what an operator prepared."""
        with self._lock:
            self._kept[key] = schema, chosen
            self._kept.move_to_end(key)
            while len(self._kept) > self.bound:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept.clear()

    @property
    def statistics(self) -> CacheStatistics:
        """How it does."""
        with self._lock:
            return CacheStatistics(self.name, len(self._kept), self.bound, self._hits, self._misses)


LAUNCHES = LaunchCache()
"""Those of the process."""


class OperatorLaunches:
    """The launches of one operator by signature: few of its own, which live as long as it, over the shared ones."""

    def __init__(self) -> None:
        """Start without."""
        self._own: OrderedDict[Hashable, Chosen] = OrderedDict()
        self._definition: bytes | None = None
        self._looked = False

    def get(
        self, signature: tuple[Hashable, ...], op: OpView, ranking: Sequence[Candidate], prepare: Callable[[], Chosen]
    ) -> Chosen:
        """Return what was prepared for a signature, by this operator or an equal one; else prepare it."""
        found = self._own.get(signature)
        if found is None:
            found = self._own[signature] = self._shared(signature, op, ranking, prepare)
            if len(self._own) > KEPT:
                self._own.popitem(last=False)
        self._own.move_to_end(signature)
        return found

    def clear(self) -> None:
        """Hold none any more."""
        self._own.clear()

    def _shared(
        self, signature: tuple[Hashable, ...], op: OpView, ranking: Sequence[Candidate], prepare: Callable[[], Chosen]
    ) -> Chosen:
        if not self._looked:
            self._definition, self._looked = definition_key(op.definition), True
        if self._definition is None:
            return prepare()
        key = self._definition, tuple(ranking), signature
        found = LAUNCHES.get(key, op.schema, place_of(op.definition.device_option).kind)
        if found is None:
            found = prepare()
            LAUNCHES.keep(key, op.schema, found)
        return found


def definition_key(definition: OperatorDef) -> bytes | None:
    """Return bytes that are equal for equal definitions; None for one that is too large to share."""
    return None if definition.ByteSize() > DEFINITION_BYTES else definition.SerializeToString(deterministic=True)
