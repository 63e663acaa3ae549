"""Kernels on oneDNN: arithmetic, comparison and products."""
