"""The largest elements along an axis."""

from __future__ import annotations

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Sketch, draws


@draws("TopK")
def top_k(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    axis = hand.integer(-len(X), len(X) - 1)
    k = hand.integer(1, X[axis] + hand.integer(0, 2))
    found = {**hand.some({"axis": axis}, 1.0 if axis != -1 else 0.3)}
    axis = found.get("axis", -1)
    if hand.chance(0.3):
        return Sketch(found, {"X": X}, {"K": np.array([k], np.int64)}, hand.integer(2, 3))
    return Sketch({**found, "k": k}, {"X": X}, {}, hand.integer(2, 3))
