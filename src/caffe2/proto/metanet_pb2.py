"""The old import name of `tazza.proto.metanet_pb2`: the same classes."""

from __future__ import annotations

from tazza.proto.metanet_pb2 import *  # noqa: F403 (the list of names is the generated module's)
