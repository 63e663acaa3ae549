"""Generators of sketches, by families of operators whose windows, axes or values do not follow from the schemas."""
