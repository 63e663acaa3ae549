"""Operators: sums, means and norms along axes."""
