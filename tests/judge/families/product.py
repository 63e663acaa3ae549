"""Products of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tazza.ops.nn.fc import fcs
from tests.judge.hand import Hand, Shape, Sketch, draws


def split_in(hand: Hand, count: int) -> Shape:
    """Return extents whose product is `count`: one, or two."""
    d = hand.pick([d for d in range(1, count + 1) if count % d == 0]) if count > 0 else 1
    return (count,) if hand.chance(0.6) else (d, count // d)


@draws("FC", "FCTransposed")
def fc(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 1, 4)
    axis = hand.integer(0, len(X) - 1) if hand.chance(0.4) else min(1, len(X) - 1)
    K, M = math.prod(X[axis:]), hand.channels()
    inner = X[axis:] if hand.chance(0.3) else split_in(hand, K)
    found: dict[str, Any] = (
        {"axis": axis if hand.chance(0.7) else axis - len(X)} if axis != 1 or hand.chance(0.3) else {}
    )
    if schema.type in fcs and not fcs.rows[schema.type].features_first:
        if len(inner) > 1:
            found["axis_w"] = len(inner)
        return Sketch(found, {"X": X, "W": (*inner, *split_in(hand, M)), "b": (M,)})
    ahead = (1,) if hand.chance(0.2) else ()
    if ahead:
        found["axis_w"] = 2
    return Sketch(found, {"X": X, "W": (*ahead, M, *inner), "b": (M,)})


@draws("RowMul")
def row_mul(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    return Sketch({}, {"X": X, "w": hand.given.get("w", X[:1])})


@draws("ElementwiseLinear")
def elementwise_linear(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    axis = hand.integer(0, len(X) - 1) if hand.chance(0.4) else min(1, len(X) - 1)
    found = {"axis": axis - len(X) if hand.chance(0.2) else axis} if axis != 1 or hand.chance(0.3) else {}
    D = math.prod(X[axis:])
    return Sketch(found, {"X": X, "w": (D,), "b": (D,)})


@draws("ConcatBatchMatMulBatchGatherOp")
def pair_product(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    count, X = max(hand.integer(1, 5), len(hand.given)), hand.given.get("X_0", hand.dims(2, 2))
    pairs = hand.rng.integers(0, count**2, hand.dims(0, 2, elements=200))
    return Sketch({}, {"X": [X] * count}, {"pairs": pairs.astype(hand.pick((np.int32, np.int64)))})


@draws("MatMul")
def matmul(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    found: dict[str, Any] = {side: 1 for side in ("trans_a", "trans_b") if hand.chance(0.5)}
    A = hand.shape("A", 2, 3)
    axis = hand.integer(1, len(A) - 1) if len(A) > 1 else 1
    if axis != 1 or hand.chance(0.2):
        found["axis_a"] = axis
    rows, columns = math.prod(A[:axis]), math.prod(A[axis:])
    M, K = (columns, rows) if "trans_a" in found else (rows, columns)
    N = hand.channels()
    if "B" in hand.given:
        return Sketch(found, {"A": A, "B": hand.given["B"]})
    second = (N, *split_in(hand, K)) if "trans_b" in found else (K, *split_in(hand, N))
    ahead = (1,) if hand.chance(0.2) else ()
    if ahead:
        found["axis_b"] = 2
    like = {"like": (M, 1, N)} if hand.chance(0.15) else {}  # so that dY can be cut as Y is
    return Sketch(found, {"A": A, "B": (*ahead, *second), **like})


@draws("BatchMatMul")
def batch_matmul(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    found: dict[str, Any] = {side: 1 for side in ("trans_a", "trans_b") if hand.chance(0.5)}
    N = hand.channels()
    *batch, rows, columns = hand.given.get("A", (*hand.dims(0, 2, elements=12), hand.size(), hand.channels()))
    K = rows if "trans_a" in found else columns
    second = [*batch, N, K] if "trans_b" in found else [*batch, K, N]
    if hand.chance(0.35):
        found["broadcast"] = 1
        second = [1 if i < len(batch) and hand.chance(0.3) else extent for i, extent in enumerate(second)]
        second = second[hand.integer(0, len(batch)) :]
        if hand.chance(0.15):
            second = [K]
    return Sketch(found, {"A": (*batch, rows, columns), "B": hand.given.get("B", tuple(second))})
