"""The engine `cudnn`: convolutions by NVIDIA's library, in float32, float16 and bfloat16.

Half-precision numbers are multiplied and added up in float32, unless `float16_compute` asks for sums in float16;
factors of float32 are rounded to TF32 where the flag `cuda_tf32` allows it.
"""

from __future__ import annotations

from functools import partial

from tazza.codegen.prepare import compiles
from tazza.engines.cudnn.library import CUDNN, version
from tazza.operator import engine

KIND = "cuda"
NAME = "cudnn"


ENGINE = engine(
    NAME,
    "convolutions by NVIDIA's cuDNN",
    device=KIND,
    priority=20,
    unavailable=CUDNN.missing,
    version=version,
)
cudnn_kernel = partial(compiles, engine=NAME, device=KIND)
"""Registers a function of letters as a kernel of this engine."""
