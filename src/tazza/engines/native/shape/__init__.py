"""Compiled kernels: how elements are arranged: copies, casts, joins, cuts and permutations."""
