"""Operators: rows of tables by index."""
