"""Tests of `tazza.observers`."""
