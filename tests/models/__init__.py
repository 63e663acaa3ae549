"""Tests of `tazza.models`."""
