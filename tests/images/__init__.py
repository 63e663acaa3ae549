"""Tests of `tazza.images`."""
