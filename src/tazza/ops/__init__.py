"""Operator families: one file each, with schema, infer, cost, gradient and reference kernel. Imported on demand through the index."""
