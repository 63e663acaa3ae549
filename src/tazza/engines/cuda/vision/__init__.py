"""Kernels on NVIDIA's GPUs of operators in `tazza.ops.vision`."""
