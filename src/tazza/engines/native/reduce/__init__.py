"""Compiled kernels: reductions along axes."""
