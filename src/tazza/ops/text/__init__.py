"""Operators: texts, numbers of texts and of other keys."""
