"""Nets of bytes out of float32 nets."""
