"""Distances of rows."""

from __future__ import annotations

from tazza.operator import OpSchema, OpView
from tazza.ops.math.distance import norms, rows_of
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
    """Two terms are taken from each other, of which nothing is left in rows of one element; both are rounded."""
    X, Y, dZ = (wide(x) for x in inputs)
    x, y = rows_of(X), rows_of(Y)
    D = x.shape[1]

    def rounded(value: Array, terms: float = 1.0) -> Array:
        return value * factor(value.shape, terms)

    lengths = [rounded(norms(rows), D) for rows in (x, y)]
    cosine = rounded((x * y).sum(axis=1), D) / (lengths[0] * lengths[1])
    each = dZ[:, None] / (lengths[0] * lengths[1])[:, None]
    pairs = ((x, y, lengths[0]), (y, x, lengths[1]))
    along = [rounded(each * other) for _, other, _ in pairs]
    back = [rounded((dZ * cosine / n**2)[:, None] * own) for own, _, n in pairs]
    return [(one - two).reshape(X.shape) for one, two in zip(along, back, strict=True)]
