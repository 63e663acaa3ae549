"""Operators: arithmetic, comparison and products."""
