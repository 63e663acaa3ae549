"""Tests of tazza.db."""
