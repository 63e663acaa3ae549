"""Tests of what is told of old programs."""
