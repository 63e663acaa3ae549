"""Predictions by the million: sources, parts, workers, results."""
