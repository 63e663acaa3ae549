"""How a net is rewritten: versions of blobs, the backward pass."""

from tazza.graph.backward import backward_pass
from tazza.graph.versions import VersionedOps

__all__ = ["VersionedOps", "backward_pass"]
