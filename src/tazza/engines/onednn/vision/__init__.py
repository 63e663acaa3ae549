"""Kernels on oneDNN: images."""
