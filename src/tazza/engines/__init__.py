"""Engines: kernels for one library each, in files named like the operator family; imported through the index."""
