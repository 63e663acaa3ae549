"""Operators: updates of parameters and their rates."""
