"""Blobs for operators that run without a workspace."""

from __future__ import annotations

from pathlib import Path

from tazza.tensor import Blob


class LocalBlobs:
    """The least workspace: a dict of blobs, for one operator at a time."""

    def __init__(self, root: Path | None = None) -> None:
        """Start without blobs; relative paths count from `root`, the current folder by default."""
        self.root = Path() if root is None else root
        self.blobs: dict[str, Blob] = {}

    def get_blob(self, name: str) -> Blob | None:
        """Return a blob, or None."""
        return self.blobs.get(name)

    def create_blob(self, name: str) -> Blob:
        """Return a blob, made empty where it is missing."""
        return self.blobs.setdefault(name, Blob(name))
