"""Compiled kernels: layers, normalizations and activations."""
