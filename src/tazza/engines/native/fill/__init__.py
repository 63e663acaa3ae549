"""Compiled kernels: blobs made from numbers, given or drawn."""
