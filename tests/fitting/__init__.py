"""Tests of tazza.fitting."""
