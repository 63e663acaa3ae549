"""Kernels on cuDNN of operators in `tazza.ops.nn`."""
