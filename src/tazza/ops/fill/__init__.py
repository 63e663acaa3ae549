"""Operators: blobs made from numbers, given or drawn."""
