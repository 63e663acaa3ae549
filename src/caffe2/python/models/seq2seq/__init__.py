"""Nets that make sequences of sequences, under their old names."""
