"""Parts of tensors by indices along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Sketch, draws


@draws("Gather", "BatchGather")
def gather(hand: Hand, schema: OpSchema) -> Sketch:
    alone = schema.type == "Gather"
    shape = hand.given.get("DATA", tuple(hand.size() for _ in range(hand.integer(1 if alone else 2, 4))))
    axis = hand.integer(0, len(shape) - 1) if alone else 1
    found: dict[str, Any] = hand.some({"axis": axis}, 1.0 if axis else 0.3) if alone else {}
    if alone:
        found["dense_gradient"] = 0  # the operator that makes it dense does not take the arguments that come with it
    outer: tuple[int, ...] = ()
    if hand.chance(0.3):
        found["match_outer"] = 1
        outer = shape[:axis]
    own = tuple(hand.size() for _ in range(hand.integer(0 if not outer else 1, 2)))
    indices = hand.rng.integers(0, max(shape[axis], 1), (*outer, *own))
    dtype = np.int32 if hand.chance(0.5) else np.int64
    return Sketch(found, {"DATA": shape}, {"INDICES": indices.astype(dtype)})


@draws("GatherByKey")
def by_key(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw keys and as many rows of each part as belong to it."""
    del schema
    parts, rest = hand.integer(1, 4), hand.dims(0, 2, elements=300)
    keys = hand.rng.integers(-9, 9, hand.integer(0, 12)).astype(hand.pick((np.int32, np.int64)))
    counts = np.bincount(keys % parts, minlength=parts)
    return Sketch({}, {"X": [(int(count), *rest) for count in counts]}, {"keys": keys})


@draws("CopyRowsToTensor")
def copy_rows(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    R, D = hand.given.get("X", (hand.size(), hand.channels()))
    indices = hand.rng.integers(0, max(R, 1), hand.integer(0, 7) if R else 0)
    return Sketch({}, {"X": (R, D), "row": (D,)}, {"indices": indices})
