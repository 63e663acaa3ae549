"""Operators: losses and what measures a prediction."""
