"""Compiled kernels of operators on bytes: tables of what each byte becomes."""
