"""Builders of known nets, under their old names."""
