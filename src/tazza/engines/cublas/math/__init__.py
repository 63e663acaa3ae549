"""Kernels on cuBLAS of operators in `tazza.ops.math`."""
