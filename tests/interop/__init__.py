"""Tests of `tazza.interop`."""
