"""Kernels on oneDNN: layers, normalizations and activations."""
