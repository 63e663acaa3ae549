"""Operators: integers that stand for real numbers, and half precision."""
