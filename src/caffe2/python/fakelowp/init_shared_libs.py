"""Loaded the libraries of an accelerator; there are none, and nothing is loaded."""
