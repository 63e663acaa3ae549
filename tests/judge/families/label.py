"""Losses and measures that read labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Array, Hand, Shape, Sketch, draws


def classes(hand: Hand, shape: Shape, D: int) -> Array:
    """Return labels within the classes."""
    return hand.rng.integers(0, max(D, 1), shape).astype(np.int32)


def distribution(hand: Hand, shape: Shape, axis: int = -1) -> Array:
    """Return positive numbers whose sum along an axis is 1."""
    found = hand.rng.uniform(0.02, 1.0, shape)
    with np.errstate(all="ignore"):
        return (found / found.sum(axis=axis, keepdims=True)).astype(np.float32)


@draws("Accuracy")
def accuracy(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.given.get("X", (hand.batch(), hand.channels()))
    label = classes(hand, (X[0],), X[-1])
    return Sketch(hand.some({"top_k": hand.integer(1, max(1, min(X[-1], 5)))}), {"X": X}, {"label": label})


@draws("LabelCrossEntropy")
def label_cross_entropy(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.given.get("X", (hand.batch(), hand.channels()))
    label = classes(hand, (X[0],) if hand.chance(0.7) else (X[0], 1), X[-1])
    return Sketch({}, {}, {"X": distribution(hand, X), "label": label})


@draws("SoftmaxWithLoss")
def softmax_with_loss(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    axis = hand.integer(0, len(X) - 1) if hand.chance(0.4) else min(1, len(X) - 1)
    if axis == 1 and len(X) > 2 and X[1] == 0:
        axis = 0
    N, D = math.prod(X[:axis]), math.prod(X[axis:])
    found: dict[str, Any] = hand.some({"axis": axis - len(X) if hand.chance(0.2) else axis}, 0.3 if axis == 1 else 1.0)
    found |= hand.some({"scale": hand.pick((1.0, 0.5, 2.0, 0.0)), "average_by_batch_size": hand.integer(0, 1)}, 0.4)
    values: dict[str, Any] = {"label": classes(hand, (N,) if hand.chance(0.7) else (N, 1), D)}
    if hand.chance(0.35):
        found["label_prob"] = 1
        values["label"] = distribution(hand, (N, D))
    if hand.chance(0.4):
        values["weights"] = hand.rng.uniform(0, 2, N).astype(np.float32)
    return Sketch(found, {"X": X}, values)
