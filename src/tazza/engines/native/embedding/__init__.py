"""Compiled kernels: rows of tables."""
