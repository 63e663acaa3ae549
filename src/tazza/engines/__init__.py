"""Engines: kernels for one library each, in files named like the operator family. Imported on demand through the index."""
