"""Kernels on oneDNN: integers that stand for real numbers."""
