"""The largest elements along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Sketch, draws


@draws("FlexibleTopK", "FlexibleTopKGradient")
def flexible_top_k(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 1, 4)
    K = hand.rng.integers(1, max(X[-1], 1), X[:-1], endpoint=True)
    values: dict[str, Any] = {"K": K}
    if schema.type == "FlexibleTopKGradient":
        each = [hand.rng.permutation(X[-1])[:k] for k in K.ravel().tolist()]
        values["P"] = np.concatenate([np.zeros(0, np.int64), *each])
        return Sketch({}, {"X": X, "dV": values["P"].shape}, values)
    return Sketch({}, {"X": X}, values)


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
