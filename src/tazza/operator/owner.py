"""Who owns blobs: what an operator needs of a workspace, which is more than blobs where the operator owns nets.

An operator with nets within (a branch, the body of a loop, a step net) makes them by `owner.net(definition)`, in its
workspace or in a child of it (`owner.child()`), and runs and closes them as its host kernel sees fit. What a net is
belongs to an upper floor, which fills `NET_MAKER`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tazza.proto import NetDef
from tazza.registry import Hook
from tazza.tensor import Blob

if TYPE_CHECKING:
    from tazza.operator.bound_section import Standing
    from tazza.operator.local import LocalBlobs
    from tazza.operator.operator import Operator


class RunnableNet(Protocol):
    """A net that its owner runs, in one thread at a time."""

    @property
    def name(self) -> str:
        """The net's name."""
        ...

    @property
    def operators(self) -> Sequence[Operator]:
        """Its operators, for who observes them."""
        ...

    def run(self, *, timeout_s: float | None = None) -> None:
        """Run every operator once, and return when all have ended.

        Raises:
            TazzaError: the first error; every blob stays valid.
        """
        ...

    def standing(self) -> Standing | None:
        """Return what the last run was, in this thread, where the next one is nothing but the same native calls."""
        ...

    def cancel_waiting(self) -> None:
        """Ask operators that wait for something to give up; called by another thread."""
        ...

    def close(self) -> None:
        """End what it keeps between runs."""
        ...


class BlobOwner(Protocol):
    """What an operator needs of a workspace."""

    @property
    def root(self) -> Path:
        """The folder that relative paths count from."""
        ...

    def get_blob(self, name: str) -> Blob | None:
        """Return a blob, or None."""
        ...

    def create_blob(self, name: str) -> Blob:
        """Return a blob, made empty where it is missing."""
        ...

    def blob_names(self, *, shared: bool = True) -> list[str]:
        """Return the sorted names that stand for a blob here; without `shared` those of its own blobs."""
        ...

    def child(self, forwarded: Mapping[str, Forwarded] | None = None, *, shared: bool | None = None) -> LocalBlobs:
        """Return a workspace with blobs of its own; see `LocalBlobs` for what else it sees.

        Args:
            forwarded: own name -> the name of a blob here, or the owner of the blob and its name there.
            shared: whether it sees everything here; by default where nothing is forwarded.
        """
        ...

    def net(self, definition: NetDef, *, within: Operator | None = None) -> RunnableNet:
        """Return a net that runs on the blobs of this workspace.

        Args:
            definition: what to run; the net has a copy.
            within: the operator that the net belongs to: a run ends where that of the operator is to end, and what
                people should know once is told by it.

        Raises:
            TazzaError: the net is not legal.
        """
        ...


Forwarded = str | tuple[BlobOwner, str]
"""Where a forwarded name leads: to a name in the parent, or in any workspace."""


class NetMaker(Protocol):
    """Makes runnable nets."""

    def __call__(self, definition: NetDef, workspace: BlobOwner, *, within: Operator | None = None) -> RunnableNet:
        """Return a net on the blobs of a workspace."""
        ...


NET_MAKER: Hook[NetMaker] = Hook("maker of nets", "tazza.nets")


class OwnsNets:
    """The part of a `BlobOwner` that is the same for all of them: children, and nets."""

    def child(
        self: BlobOwner, forwarded: Mapping[str, Forwarded] | None = None, *, shared: bool | None = None
    ) -> LocalBlobs:
        """Return a workspace with blobs of its own; see `BlobOwner.child`."""
        from tazza.operator.local import LocalBlobs

        sees_all = forwarded is None if shared is None else shared
        made = LocalBlobs(self.root, parent=self if sees_all else None)
        made.forward(self, {} if forwarded is None else forwarded)
        return made

    def net(self: BlobOwner, definition: NetDef, *, within: Operator | None = None) -> RunnableNet:
        """Return a net that runs on the blobs of this workspace; see `BlobOwner.net`."""
        return NET_MAKER.get()(definition, self, within=within)
