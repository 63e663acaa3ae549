"""Choices by a condition, places along an axis, and rows that masks and numbers name."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema, OpView
from tazza.ops.math.logit import kept
from tests.judge.condition import Factor, steps_of
from tests.judge.hand import Array, Hand, Sketch, draws


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


def shares(hand: Hand, count: int, total: int) -> Any:
    """Return `count` lengths that add up to `total`."""
    return np.bincount(hand.rng.integers(0, max(count, 1), total if count else 0), minlength=count).astype(np.int32)


@draws("OneHot")
def one_hot(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    size, (N,) = hand.integer(1, 20), hand.shape("X", 1, 1)
    return Sketch({}, {}, {"X": hand.rng.integers(0, size, N), "size": np.array([size])})


@draws("SegmentOneHot")
def segment_one_hot(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    size, (K,) = hand.integer(1, 20), hand.shape("X", 1, 1)
    count = hand.integer(0, 6)
    lengths = shares(hand, count, K)
    return Sketch({}, {}, {"lengths": lengths, "X": hand.rng.integers(0, size, K), "size": np.array([size])})


@draws("BatchOneHot", "BatchBucketOneHot")
def batch_one_hot(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 1, 3)
    D = int(np.prod(X[1:]))
    if schema.type == "BatchBucketOneHot":
        lengths = hand.rng.integers(1, 4, D).astype(np.int32)
        bounds = [bound for n in lengths for bound in sorted(hand.real(-2, 2) for _ in range(int(n)))]
        return Sketch({}, {"X": X}, {"lengths": lengths, "boundaries": np.array(bounds, np.float32)})
    lengths = hand.rng.integers(0, 4, D).astype(np.int32)
    return Sketch({}, {"X": X, "values": (int(lengths.sum()),)}, {"lengths": lengths})


@draws("BooleanMask", "BooleanMaskGradient")
def boolean_mask(hand: Hand, schema: OpSchema) -> Sketch:
    if schema.type == "BooleanMask":
        X = hand.shape("X", 1, 4)
        return Sketch({}, {"X": X}, {"mask": hand.rng.random(X[0]) < 0.5})
    dY = hand.shape("dY", 1, 4)
    mask = np.arange(dY[0] + hand.integer(0, 5)) < dY[0]
    return Sketch({}, {"dY": dY}, {"mask": hand.rng.permutation(mask)})


@draws("BooleanMaskLengths")
def boolean_mask_lengths(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    (M,) = hand.shape("lengths", 1, 1)
    N = hand.integer(0, 20) if M else 0
    return Sketch({}, {}, {"lengths": shares(hand, M, N), "mask": hand.rng.random(N) < 0.5})


@draws("BooleanUnmask")
def boolean_unmask(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    count, N = hand.integer(1, 3), hand.integer(0, 20)
    owner = hand.rng.integers(0, count, N)
    masks = [owner == i for i in range(count)]
    return Sketch({}, {"X": [(int(mask.sum()),) for mask in masks]}, {"mask": masks})


@draws("SquareRootDivide")
def square_root_divide(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    return Sketch({}, {"X": X}, {"scale": hand.rng.integers(0, 9, X[0]).astype(hand.pick(("i", "q", "f")))})


@draws("BatchBoxCox")
def batch_box_cox(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 3)
    powers = hand.rng.choice([0, 0.5, 1.25, 2], int(np.prod(X[1:])))  # a small one divides what is rounded
    return Sketch({}, {"X": X, "lambda2": X[1:]}, {"lambda1": powers.astype(np.float32)})


@draws("Bucketize")
def bucketize(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    return Sketch({"boundaries": sorted(hand.real(-2, 2) for _ in range(hand.integer(0, 6)))}, {})


@draws("BatchBucketize")
def batch_bucketize(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 2, 2)
    K = hand.integer(0, 4) if X[1] else 0
    lengths = hand.rng.integers(0, 5, K).astype(np.int32)
    bounds = [bound for n in lengths for bound in sorted(hand.real(-2, 2) for _ in range(int(n)))]
    found = {"indices": hand.rng.integers(0, max(X[1], 1), K).astype(np.int32), "lengths": lengths}
    return Sketch({}, {"X": X}, found | {"boundaries": np.array(bounds, np.float32)})


@draws("PiecewiseLinearTransform")
def piecewise_linear_transform(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    binary = hand.chance(0.4)
    N, columns = hand.shape("X", 2, 2)
    F, G = hand.integer(1, 4), 1 if binary else max(columns, 1)
    bounds = [bound for _ in range(G) for bound in sorted(hand.real(-2, 2) for _ in range(F + 1))]
    lines = {name: [hand.real(-2, 2) for _ in range(G * F)] for name in ("slopes", "intercepts")}
    found: dict[str, Any] = {"bounds": bounds, **lines}
    arguments = {"binary": 1} if binary else {}
    X = hand.pick(((N,), (N, 1), (N, 2))) if binary else (N, G)
    if hand.chance(0.5):
        return Sketch(arguments | found, {"X": X})
    return Sketch(arguments, {"X": X}, {name: np.array(one, np.float32) for name, one in found.items()})


@draws("Mod")
def mod(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    return Sketch({"divisor": hand.pick((-7, -1, 1, 2, 3, 10)), "sign_follow_divisor": hand.integer(0, 1)}, {})


@draws("Logit", "LogitGradient")
def logit(hand: Hand, schema: OpSchema) -> Sketch:
    shapes = dict.fromkeys(schema.inputs_by_letter, hand.shape("X"))
    X = 0.02 + 0.96 * hand.rng.random(shapes.pop("X"))  # beside 1 what is rounded is all that is left
    return Sketch(hand.some({"eps": hand.real(0.01, 0.4)}), shapes, {"X": X.astype(np.float32)})


@steps_of("Logit")
def logit_steps(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """Round 1 - eps: as float32 it may be a tenth of eps away."""
    X = inputs[0].astype(np.float64)
    low, high = kept(op, X)
    inside = np.clip(X, low, high * factor((), 1.0))
    return [np.log(inside / (1 - inside))]


@draws("StumpFunc", "StumpFuncIndex")
def stump_func(hand: Hand, schema: OpSchema) -> Sketch:
    found = hand.some({name: hand.integer(-9, 9) + 0.25 for name in schema.args})
    X = hand.rng.integers(-9, 9, hand.shape("X")) + 0.5  # not beside the threshold
    return Sketch(found, {}, {"X": X.astype(np.float32)})


@draws("SampleAs", "SampleAsGradient")
def sample_as(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 1, 4)
    labels = hand.rng.integers(-1, 3, X[:1]).astype(np.int32)
    shapes: dict[str, Any] = {"X": X}
    if len(schema.inputs) > 2:
        shapes["dY"] = (int((labels > 0).sum()), *X[1:])
    return Sketch({}, shapes, {"labels": labels})


@draws("SpatialNarrowAs", "SpatialNarrowAsGradient")
def spatial_narrow_as(hand: Hand, schema: OpSchema) -> Sketch:
    N, C, H, W = A = hand.given.get("A", (hand.batch(), hand.integer(1, 6), hand.size(), hand.size()))
    h, w = hand.integer(0, H), hand.integer(0, W)
    shapes: dict[str, Any] = {"A": A, "B": (N, h, w) if hand.chance(0.5) else (N, C, h, w)}
    return Sketch({}, shapes | ({"dY": (N, C, h, w)} if len(schema.inputs) > 2 else {}))
