"""The engine `gemm`: convolution the way Caffe2 computed it on the CPU, as matrix products of the BLAS behind NumPy."""

from __future__ import annotations

from tazza.operator import engine

GEMM = engine("gemm", "matrix products by NumPy's BLAS: Caffe2's own algorithm for convolution", priority=10)
