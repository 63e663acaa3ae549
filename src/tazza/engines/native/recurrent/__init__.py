"""Compiled kernels: steps of recurrent nets."""
