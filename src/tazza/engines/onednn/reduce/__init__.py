"""Kernels on oneDNN: sums, means and norms along axes."""
