"""Distances of rows."""

from __future__ import annotations

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Sketch, draws


@draws("SquaredL2Distance", "L1Distance", "DotProduct", "CosineSimilarity")
def distance(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    shape = hand.given.get("X", hand.given.get("Y")) or (hand.batch(), hand.channels(), *hand.dims(0, 2))
    return Sketch({}, {"X": shape, "Y": shape})


@draws("DotProductWithPadding")
def padded(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.given.get("X", (hand.batch(), hand.channels()))
    replicate = hand.chance(0.5)
    Y = (X[0], X[1] * hand.integer(1, 3) if replicate else hand.channels(), *X[2:])
    return Sketch(
        {"replicate": replicate} if replicate else hand.some({"pad_value": hand.real(-2, 2)}), {"X": X, "Y": Y}
    )
