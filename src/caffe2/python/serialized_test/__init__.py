"""Tests of operators whose results are recorded in files."""
