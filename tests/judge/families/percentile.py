"""Percentiles by tables of samples."""

from __future__ import annotations

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Array, Hand, Sketch, draws


def sorted_samples(hand: Hand, lengths: Array) -> Array:
    """Return values that rise within each feature."""
    each: list[Array] = [np.sort(hand.rng.standard_normal(int(n))) for n in lengths]
    return np.concatenate([np.zeros(0), *each])


@draws("Percentile")
def percentile(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 2, 2)
    lengths = hand.rng.integers(0, 6, X[1]).astype(np.int32)
    values = sorted_samples(hand, lengths)
    samples = np.stack([values, hand.rng.uniform(0, 1, len(values))], axis=1).astype(np.float32)
    return Sketch({}, {"X": X}, {"samples": samples, "lengths": lengths})


@draws("BisectPercentile")
def bisect_percentile(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 2, 2)
    lengths = hand.rng.integers(1, 6, X[1])
    values = sorted_samples(hand, lengths)
    found = {"percentile_raw": values.tolist(), "lengths": lengths.tolist()}
    for name in ("mapping", "lower", "upper"):
        found[f"percentile_{name}"] = hand.rng.uniform(0, 1, len(values)).tolist()
    return Sketch(found, {"X": X})
