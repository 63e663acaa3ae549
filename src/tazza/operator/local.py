"""Blobs for operators that run without a workspace, or in a child of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from tazza.operator.owner import BlobOwner, Forwarded, OwnsNets
from tazza.tensor import Blob


class LocalBlobs(OwnsNets):
    """The least workspace: own blobs, then those that names are forwarded to, then all of a parent.

    A forwarded name is resolved anew at each use. Writing a name that is not an own one writes the blob it leads to.

    >>> home = LocalBlobs()
    >>> x = home.create_blob("x")
    >>> child = home.child({"inner": "x"})
    >>> child.get_blob("inner") is x, child.get_blob("x")
    (True, None)
    """

    def __init__(self, root: Path | None = None, *, parent: BlobOwner | None = None) -> None:
        """Start without blobs.

        Args:
            root: what relative paths count from, the current folder by default.
            parent: whose blobs are seen too.
        """
        self.root = Path() if root is None else root
        self.blobs: dict[str, Blob] = {}
        self.forwarded: dict[str, tuple[BlobOwner, str]] = {}
        self._parent = parent

    def forward(self, owner: BlobOwner, names: Mapping[str, Forwarded], *, but: Collection[str] = ()) -> None:
        """Let names stand for blobs of `owner`, or of the owner given with each; those in `but` stay as they are."""
        for name, target in names.items():
            if name not in but:
                self.forwarded[name] = (owner, target) if isinstance(target, str) else target

    def get_blob(self, name: str) -> Blob | None:
        """Return a blob, or None."""
        found = self.blobs.get(name)
        if found is not None:
            return found
        if name in self.forwarded:
            owner, target = self.forwarded[name]
            return owner.get_blob(target)
        return None if self._parent is None else self._parent.get_blob(name)

    def create_blob(self, name: str) -> Blob:
        """Return a blob, made empty where it is missing: here, or where its name is forwarded to."""
        found = self.get_blob(name)
        if found is not None:
            return found
        if name in self.forwarded:
            owner, target = self.forwarded[name]
            return owner.create_blob(target)
        return self.blobs.setdefault(name, Blob(name))

    def blob_names(self, *, shared: bool = True) -> list[str]:
        """Return the sorted names that stand for a blob here; without `shared` those of its own blobs."""
        names = set(self.blobs)
        if shared:
            names |= {*self.forwarded, *(() if self._parent is None else self._parent.blob_names())}
        return sorted(names)
