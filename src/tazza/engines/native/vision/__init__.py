"""Compiled kernels: boxes in images."""
