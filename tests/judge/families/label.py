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


@draws("CrossEntropy", "CrossEntropyGradient")
def cross_entropy(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.given.get("X", (hand.batch(), hand.channels()))
    dY = {"dY": X[:1]} if "dY" in schema.inputs_by_letter else {}
    return Sketch({}, dY, {"X": distribution(hand, X), "label": distribution(hand, X)})


@draws(
    "SigmoidCrossEntropyWithLogits",
    "WeightedSigmoidCrossEntropyWithLogits",
    "SigmoidCrossEntropyWithLogitsGradient",
    "WeightedSigmoidCrossEntropyWithLogitsGradient",
)
def sigmoid_cross_entropy(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 1, 4)
    tricks = [name for name in ("log_D_trick", "unjoined_lr_loss") if name in schema.args]
    found: dict[str, Any] = {hand.pick(tricks): 1} if tricks and hand.chance(0.5) else {}
    shapes = {letter: X for letter in ("X", "W", "T") if letter in schema.inputs_by_letter}
    dY = {"dY": X[:-1]} if "dY" in schema.inputs_by_letter else {}
    return Sketch(found, {**shapes, **dY}, {"T": hand.rng.uniform(0, 1, X).astype(np.float32)})


@draws("MakeTwoClassGradient")
def make_two_class_gradient(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    return Sketch({}, {"dY": (*hand.shape("dX", 0, 3), 2)})
