"""Nets of Caffe 1."""
