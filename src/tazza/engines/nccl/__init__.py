"""The engine `nccl`: sums and copies between the GPUs of one process, by NVIDIA's library."""

from __future__ import annotations

from tazza.engines.nccl.library import NCCL, version
from tazza.operator import engine

KIND = "cuda"
NAME = "nccl"


ENGINE = engine(
    NAME,
    "sums and copies between GPUs by NVIDIA's NCCL",
    device=KIND,
    priority=20,
    unavailable=NCCL.missing,
    version=version,
)
