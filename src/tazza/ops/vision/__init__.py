"""Operators: images."""
