"""Distances of rows."""

from __future__ import annotations

import numpy as np

from tazza.operator import OpSchema, OpView
from tests.check import evaluate
from tests.judge.condition import Factor, steps_of, wide
from tests.judge.hand import Array, Hand, Sketch, draws


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


@steps_of("CosineSimilarityGradient")
def cosine_gradient(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """Two terms of the size of the gradient over the length of a row are taken from each other: for one element, 0."""
    plain = evaluate(op, [wide(x) for x in inputs])
    X, Y, dZ = (wide(x) for x in inputs[:3])
    found: list[Array] = []
    for y, row in zip(plain, (X, Y), strict=False):
        flat = np.abs(row.reshape(len(row), -1)).sum(axis=1) if row.size else np.ones(len(row))
        size = np.abs(dZ.reshape(-1)[: len(flat)]) / np.maximum(flat, 1e-12)
        found.append(y + size.reshape(-1, *(1,) * (y.ndim - 1)) * (factor(y.shape, 1.0) - 1))
    return found
