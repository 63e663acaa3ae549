"""Tests of the `tazza` command."""
