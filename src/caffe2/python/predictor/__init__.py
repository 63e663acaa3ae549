"""Nets that predict, to files and back."""
