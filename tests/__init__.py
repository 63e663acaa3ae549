"""Tests of tazza, laid out like the package."""
