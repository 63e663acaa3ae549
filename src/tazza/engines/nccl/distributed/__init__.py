"""Kernels on NCCL of operators in `tazza.ops.distributed`."""
