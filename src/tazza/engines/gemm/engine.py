"""Registers the engine; loads no kernel. It stands apart from the package, which the index imports before it looks."""

from __future__ import annotations

from tazza.operator import engine

GEMM = engine("gemm", "matrix products by NumPy's BLAS: Caffe2's own algorithm for convolution", priority=10)
