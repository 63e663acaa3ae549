"""Kernels of pointwise operators that no formula says."""
