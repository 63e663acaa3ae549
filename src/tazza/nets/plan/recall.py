"""A plan for programs that fetch whatever they like: what nets are run as where the flag `nets_as_plans` says so.

The first run keeps every blob. From the second one on those may be fused away that nobody outside has asked for, who
fetched one or made a net that reads it. What is fused away is emptied in the workspace, so that nobody finds numbers of
an earlier run. Who asks for such a blob later gets it where the net computes the same again: it runs once more. Else an
error says that the next run keeps it. Either way the net is compiled anew, once.

Changing state, of the one run at a time: what was asked for, the blobs that a run empties, the inputs of the last run.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable

from tazza.nets.base import NetBase, create_net
from tazza.nets.plan.net import PlanNet
from tazza.nets.plan.rewrite import KEEP_LEFT
from tazza.nets.run import Run
from tazza.operator import BlobOwner, find_argument, read_first, touched_by
from tazza.operator.effect import Effects
from tazza.operator.trust import effects_of
from tazza.proto import NetDef
from tazza.tensor import Blob, Tensor

KEEP = "keep"
"""The argument of a planned net that lists what is kept beside its declared outputs."""

_times = itertools.count(1)

_State = tuple[Blob, object, int]
"""A blob, its value, and the version of the value's storage."""


class RecallNet(PlanNet):
    """A planned net, any blob of which can be fetched."""

    recalls = True

    def _create(self, strict: bool) -> None:
        self._original = NetDef()
        self._original.CopyFrom(self.definition)
        self._writes = frozenset(touched_by(self.definition).writes)
        own = find_argument(self.definition, KEEP)
        self._asked: set[str] = {name.decode() for name in (() if own is None else own.strings)}
        self.ran_at = 0
        self._narrow = False
        self._outdated = False
        self._lost: frozenset[Blob] = frozenset()
        self._inputs: list[_State] | None = None
        alone = self._writes.isdisjoint(read_first(self.definition.op))
        self._repeatable = alone and all(effects_of(op) is Effects.PURE for op in self.definition.op)
        self.definition.arg.add(name=KEEP_LEFT, i=1)
        self._keep(self._writes)
        super()._create(strict)

    def _keep(self, names: Collection[str]) -> None:
        kept = next((one for one in self.definition.arg if one.name == KEEP), None)
        if kept is None:
            kept = self.definition.arg.add(name=KEEP)
        kept.strings[:] = sorted(name.encode() for name in names)

    def _run(self, run: Run | None) -> None:
        if (self.ran_at and not self._narrow) or self._outdated:
            self._narrow, self._outdated = True, False
            self._keep(self._asked)
            self.rewrite_anew()
        self._inputs = None
        try:
            super()._run(run)
        finally:
            if self._narrow:
                self._lose()
        self.ran_at = next(_times)
        self._inputs = self._states()

    def _lose(self) -> None:
        self.ran_at = next(_times)
        self._lost = self._fused_away()
        for blob in self._lost:
            blob.reset(self.why_lost(blob.name))

    def _fused_away(self) -> frozenset[Blob]:
        blobs = (self.workspace.get_blob(name) for name in self._writes - self.public)
        return frozenset(blob for blob in blobs if blob is not None)

    def _states(self) -> list[_State]:
        blobs = (self.workspace.get_blob(name) for name in read_first(self.definition.op))
        return [
            (blob, blob.value, blob.value.storage.version if isinstance(blob.value, Tensor) else 0)
            for blob in blobs
            if blob is not None
        ]

    def ask(self, names: Iterable[str]) -> None:
        """Keep these blobs, where the net writes them, from the next run on."""
        new = self._writes.intersection(names) - self._asked
        self._asked |= new
        self._outdated |= self._narrow and not new <= self.public

    def lost(self, blob: Blob) -> bool:
        """Whether the last run left a blob unwritten that the definition writes."""
        return blob in self._lost

    def repeat(self) -> bool:
        """Run once more where that computes the same again; whether it does."""
        same = self._repeatable and self._inputs is not None and self._states() == self._inputs
        if same:
            self.run()
        return same

    def by_operators(self) -> NetBase:
        """Return a new net of the type that the definition names."""
        return create_net(self._original, self.workspace, strict=self._strict)

    def why_lost(self, name: str) -> str:
        """Return what to do about a blob that the last run left unwritten."""
        return f"net {self.name!r} runs as a plan, and nobody had asked for {name!r} before: run it again"


def recall(nets: Iterable[NetBase], names: Iterable[str], owner: BlobOwner) -> str | None:
    """See to it that blobs are there for who asks for them; return why one is not.

    Raises:
        TazzaError: what a net raises that is run again.
    """
    asked = frozenset(names)
    recalling = sorted((net for net in nets if isinstance(net, RecallNet)), key=lambda net: net.ran_at, reverse=True)
    for net in recalling:
        net.ask(asked)
    why: str | None = None
    for name in sorted(asked):
        blob = owner.get_blob(name)
        if blob is None or not blob.is_empty:
            continue
        last = next((net for net in recalling if net.lost(blob)), None)
        if last is not None and not last.repeat():
            why = last.why_lost(name)
    return why
