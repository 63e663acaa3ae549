"""Operators: layers, normalizations and activations."""
