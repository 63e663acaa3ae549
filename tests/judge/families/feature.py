"""Features and ids of examples, in several groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tazza.ops.sparse.feature import merge_gradients, merges
from tests.judge.hand import Array, Hand, Sketch, draws


def numbers(hand: Hand, count: int) -> Array:
    """Return whole numbers from 0 to 3."""
    return hand.rng.integers(0, 4, count).astype(np.int32)


def group(hand: Hand, N: int, letters: list[str]) -> dict[str, Array]:
    """Return what says of N examples which features they have, and of these how many items."""
    if "presence" in letters:
        present = hand.rng.random(N) < 0.6
        return {"presence": present} | ({"counts": numbers(hand, N) * present} if "counts" in letters else {})
    lengths = numbers(hand, N)
    features = int(lengths.sum())
    found = {"lengths": lengths, "ids": hand.rng.integers(0, 99, features)}
    return found | ({"counts": numbers(hand, features)} if "counts" in letters else {})


def values_of(own: dict[str, Array]) -> int:
    """Return how many values the group has."""
    if "counts" in own:
        return int(own["counts"].sum())
    return own["presence"].size if "presence" in own else int(own["lengths"].sum())


@draws(*merges, *merge_gradients)
def merge(hand: Hand, schema: OpSchema) -> Sketch:
    letters = list(schema.inputs_by_letter)
    N, groups = hand.integer(0, 6), hand.integer(1, 3)
    own = [group(hand, N, letters) for _ in range(groups)]
    values: dict[str, Any] = {name: [one[name] for one in own] for name in own[0] if name in letters}
    arguments = {"feature_ids": [hand.integer(0, 99) for _ in range(groups)]} if "presence" in letters else {}
    if "dY" in letters:
        told = [one[next(name for name in ("counts", "presence", "lengths") if name in one)] for one in own]
        return Sketch(arguments, {"dY": (sum(int(one.sum()) for one in told),)}, values)
    sizes = [values_of(one) for one in own]
    if "keys" in letters:
        values["keys"] = [hand.rng.integers(0, 99, size) for size in sizes]
    return Sketch(arguments, {"X": [(size,) for size in sizes]}, values)


@draws("MergeDenseFeatureTensors")
def dense(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 2, 2)
    return Sketch({"feature_ids": list(range(X[1]))}, {"X": X}, {"presence": hand.rng.random(X) < 0.5})


@draws("MergeIdLists")
def id_lists(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    N, dtype = hand.integer(0, 6), hand.pick((np.int32, np.int64))
    lengths = [numbers(hand, N) for _ in range(hand.integer(1, 3))]
    ids = [hand.rng.integers(-5, 5, int(one.sum())).astype(dtype) for one in lengths]
    return Sketch({}, {}, {"lengths": lengths, "ids": ids})


@draws("KeySplit")
def key_split(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    limit = hand.integer(1, 5)
    keys = hand.rng.integers(0, limit, hand.shape("X", 0, 3))
    return Sketch({"categorical_limit": limit}, {}, {"X": keys}, outputs=limit)
