"""Compiled kernels: segments, and rows that indices pick."""
