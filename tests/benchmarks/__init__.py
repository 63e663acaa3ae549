"""Tests of the benchmarks: their arithmetic, their processes, their translations. Nothing here asserts a speed."""
