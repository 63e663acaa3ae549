"""Benchmarks of how nets are run: what operators cost beside their kernels, and what is gained side by side."""
