"""Operators: counters, locks and what is shown while a net runs."""
