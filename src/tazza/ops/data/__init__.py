"""Operators: databases and checkpoints."""
