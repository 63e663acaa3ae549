"""Compiled kernels: losses and what measures a prediction."""
