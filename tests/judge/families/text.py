"""Numbers of categories, and elements as texts."""

from __future__ import annotations

import math

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Sketch, draws


@draws("NGramFromCategorical")
def n_gram_from_categorical(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    drawn = hand.shape("X", 1, 3)
    X = drawn if math.prod(drawn[1:]) else drawn[:1]
    width = math.prod(X[1:])
    limits = [hand.integer(1, 4) for _ in range(hand.integer(1, 3))]
    values = hand.rng.integers(-3, 4, X).astype(np.float32)
    found = {
        "col_ids": [hand.integer(0, width - 1) for _ in limits],
        "categorical_limits": limits,
        "vals": [hand.integer(-3, 3) for _ in range(sum(limits))],
    }
    return Sketch(found, {}, {"X": values})


@draws("StringJoin")
def string_join(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("input", 1, 2)
    return Sketch(hand.some({"axis": hand.integer(0, len(X) - 1)}), {"input": X})
