"""Benchmarks of the tensor library."""
