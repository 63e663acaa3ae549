"""Compiled kernels: updates of parameters and their rates."""
