"""Operators: ranks of a common world, and what they do together."""
