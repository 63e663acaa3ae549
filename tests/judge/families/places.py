"""Choices by a condition, and places along an axis."""

from __future__ import annotations

from typing import Any

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Sketch, draws


@draws("Where")
def where(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 0, 4)
    rows = len(X) > 0 and hand.chance(0.5)
    C = X[:1] if rows else X
    return Sketch({"broadcast_on_rows": 1} if rows else {}, {"X": X, "Y": X}, {"C": hand.rng.random(C) < 0.5})


@draws("ArgMax", "ArgMin")
def arg_max(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    arguments: dict[str, Any] = {"axis": hand.integer(0, len(X) - 1), "keepdims": hand.integer(0, 1)}
    return Sketch(hand.some(arguments), {"X": X})


@draws("Histogram")
def histogram(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    edges = sorted({hand.real(-3, 3) for _ in range(hand.integer(2, 6))})
    return Sketch({"bin_edges": [*edges, 4.0]}, {})
