"""Kernels on oneDNN: how elements are arranged: copies, casts, joins, cuts and permutations."""
