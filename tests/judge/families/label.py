"""Losses and measures that read labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tazza.operator import OpSchema, OpView
from tests.check import evaluate
from tests.judge.condition import Factor, steps_of, wide
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


@steps_of("SoftmaxWithLoss")
def rounded_shares(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """Where the sum of a row is rounded, the logarithm of a share moves by as much, however near to 0 it is."""
    P, loss, *unused = evaluate(op, [wide(x) for x in inputs])
    return [P * factor(P.shape, 1.0), loss + 2 * op.scale * (factor(loss.shape, 1.0) - 1), *unused]


@steps_of("SpatialSoftmaxWithLoss")
def rounded_shares_of_places(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """As those of rows; `scale` is for the gradient alone."""
    P, loss = evaluate(op, [wide(x) for x in inputs])
    return [P * factor(P.shape, 1.0), loss + 2 * (factor(loss.shape, 1.0) - 1)]


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


@draws("SigmoidCrossEntropyLoss")
def sigmoid_cross_entropy_loss(hand: Hand, schema: OpSchema) -> Sketch:
    """Labels, some of which say that an element is ignored."""
    del schema
    X = hand.shape("X", 0, 4)
    found = hand.some({"scale": hand.pick((0.5, 2.0)), "normalize": hand.integer(0, 1)})
    return Sketch(found, {"X": X}, {"targets": hand.rng.integers(-1, 2, X).astype(np.int32)})


@steps_of("SigmoidCrossEntropyWithLogitsGradient", "WeightedSigmoidCrossEntropyWithLogitsGradient")
def shares_of_true_labels(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """What is left of a share when its label is taken from it is rounded as the share is, and any number is a label."""
    at = op.input_letters.index("T")
    ways = ([zero if i == at else wide(x) for i, x in enumerate(inputs)] for zero in (wide(inputs[at]), 0 * inputs[at]))
    (plain,), (share,) = (evaluate(op, given) for given in ways)
    return [plain + 2 * share * (factor(share.shape, 1.0) - 1)]


@steps_of("SigmoidCrossEntropyLossGradient")
def shares_of_labels(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """What is left of a share near 1 when its label is taken from it is rounded as the share is."""
    X, targets, dloss = inputs
    (plain,), (share,) = (evaluate(op, [wide(X), labels, wide(dloss)]) for labels in (targets, np.minimum(targets, 0)))
    return [plain + share * (factor(plain.shape, 2.0) - 1)]


@draws("SmoothL1Loss", "SmoothL1LossGradient")
def smooth_l1_loss(hand: Hand, schema: OpSchema) -> Sketch:
    """Some rows: of none there is no mean."""
    drawn = hand.shape("Y_hat", 1, 4)
    X = drawn if "Y_hat" in hand.given else (max(drawn[0], 1), *drawn[1:])
    found = hand.some({"beta": hand.pick((0.25, 2.0)), "scale": hand.pick((0.5, 2.0))})
    return Sketch(found, {spec.name: () if spec.name == "dloss" else X for spec in schema.inputs})


@draws("SelectSmoothL1Loss", "SelectSmoothL1LossGradient")
def select_smooth_l1_loss(hand: Hand, schema: OpSchema) -> Sketch:
    """Boxes at places that all differ."""
    drawn = hand.integer(1, 3), 4 * hand.integer(1, 5), hand.size(), hand.size()
    N, C, H, W = hand.given.get("Y_hat", drawn)
    places = np.array(list(np.ndindex(N, C // 4, H, W)), np.float32).reshape(-1, 4)
    K = hand.integer(0, min(len(places), 9))
    chosen = places[hand.rng.permutation(len(places))[:K]] * np.array([1, 4, 1, 1], np.float32)
    found = hand.some({"beta": hand.pick((0.25, 2.0)), "scale": hand.pick((0.5, 2.0))})
    shapes: dict[str, Any] = {"Y_hat": (N, C, H, W), "Y": (K, 4)}
    values: dict[str, Any] = {"locations": chosen, "normalizer": np.array(hand.integer(0, 5), np.float32)}
    return Sketch(found, shapes | ({"dloss": ()} if len(schema.inputs) > 4 else {}), values)


@draws("SigmoidFocalLoss", "SoftmaxFocalLoss")
def focal_loss(hand: Hand, schema: OpSchema) -> Sketch:
    classes = hand.integer(1, 6)
    N, C, H, W = hand.given.get("X", (hand.batch(), classes * hand.integer(1, 4), hand.size(), hand.size()))
    K = classes if C % classes == 0 else max(C, 1)
    least, most = (-1, K) if schema.type.startswith("Sigmoid") else (-1, K - 1)
    labels = hand.rng.integers(least, most, (N, C // K, H, W), endpoint=True).astype(np.int32)
    found = hand.some({"gamma": hand.pick((0.0, 2.0)), "alpha": hand.real(0.1, 0.9), "scale": hand.pick((0.5, 2.0))})
    normalizer = np.array([hand.integer(0, 5)], np.float32)
    return Sketch(found | {"num_classes": K}, {"X": (N, C, H, W)}, {"T": labels, "normalizer": normalizer})


@draws("MultiClassAccuracy")
def multi_class_accuracy(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.given.get("X", (hand.batch(), hand.channels()))
    return Sketch({}, {"X": X}, {"label": classes(hand, X[:1], X[1])})


@draws("SpatialSoftmaxWithLoss")
def spatial_softmax_with_loss(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw labels of which some say that their place is left out, in Caffe2's way of -1."""
    del schema
    X = hand.given.get("X", hand.image(spatial=(2, 2), orders=("NCHW",))[1])
    places = (X[0], *X[2:])
    label = classes(hand, places, X[1])
    label[hand.rng.random(places) < hand.pick((0.0, 0.2))] = -1
    values: dict[str, Any] = {"label": label}
    if hand.chance(0.5):
        values["weights"] = hand.rng.uniform(0, 2, places).astype(np.float32)
    return Sketch(hand.some({"scale": hand.pick((1.0, 0.5, 2.0, 0.0))}), {"X": X}, values)


@draws("GroupSpatialSoftmax", "GroupSpatialSoftmaxGradient")
def group_spatial_softmax(hand: Hand, schema: OpSchema) -> Sketch:
    first, classes = schema.inputs[0].name, hand.integer(1, 6)
    shape = hand.given.get(first, (hand.batch(), classes * hand.integer(1, 4), hand.size(), hand.size()))
    return Sketch(
        {"num_classes": classes if shape[1] % classes == 0 else max(shape[1], 1)},
        {spec.name: shape for spec in schema.inputs},
    )
