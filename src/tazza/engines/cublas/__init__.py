"""The engine `cublas`: products of matrices by NVIDIA's library, in float32, float64, float16 and bfloat16.

Products of half-precision numbers are added up in float32; factors of float32 are rounded to TF32 where the flag
`cuda_tf32` allows it.
"""

from __future__ import annotations

from functools import partial

from tazza.codegen.prepare import compiles
from tazza.engines.cublas.library import CUBLAS, version
from tazza.operator import engine

KIND = "cuda"
NAME = "cublas"


ENGINE = engine(
    NAME,
    "products of matrices by NVIDIA's cuBLAS",
    device=KIND,
    priority=20,
    unavailable=CUBLAS.missing,
    version=version,
)
cublas_kernel = partial(compiles, engine=NAME, device=KIND)
"""Registers a function of letters as a kernel of this engine."""
