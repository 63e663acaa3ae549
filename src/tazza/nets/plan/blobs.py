"""The blobs that a planned net sees."""

from __future__ import annotations

from pathlib import Path

from tazza.operator import BlobOwner
from tazza.operator.owner import OwnsNets
from tazza.tensor import Blob


class PlanBlobs(OwnsNets):
    """The blobs of a planned net: its own ones, those computed from constants, and those of the workspace."""

    def __init__(self, workspace: BlobOwner) -> None:
        self._workspace = workspace
        self._own: dict[str, Blob] = {}
        self._public: frozenset[str] = frozenset()
        self._computed: dict[str, Blob] = {}

    def show(self, public: frozenset[str], computed: dict[str, Blob]) -> None:
        """Say which names stand for blobs of the workspace, and which for computed constants."""
        self._public, self._computed = public, computed

    @property
    def root(self) -> Path:
        """The folder that relative paths count from."""
        return self._workspace.root

    def get_blob(self, name: str) -> Blob | None:
        """Return a blob, or None."""
        found = self._computed.get(name)
        if found is None and name not in self._public:
            found = self._own.get(name)
        return self._workspace.get_blob(name) if found is None else found

    def create_blob(self, name: str) -> Blob:
        """Return a blob, made empty where it is missing."""
        if name in self._public:
            return self._workspace.create_blob(name)
        return self._own.setdefault(name, Blob(name))

    def blob_names(self, *, shared: bool = True) -> list[str]:
        """Return the names of the workspace: blobs without memory of their own, and constants, are not known there."""
        return self._workspace.blob_names(shared=shared)
