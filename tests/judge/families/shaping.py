"""Operators that change shapes: joined, cut, moved, renamed, reduced."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Shape, Sketch, divisors, draws


@draws("Concat", "DepthConcat")
def concat(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    first = hand.shape("X_0", 1, 4)
    count = max(hand.integer(1, 4), len(hand.given))
    found: dict[str, Any] = {}
    axis = hand.integer(0, len(first) - 1)
    if hand.chance(0.25):
        axis = hand.integer(0, len(first))
        return Sketch({"add_axis": 1, "axis": axis}, {"X": [first] * count})
    if hand.chance(0.7) or len(first) < 2:
        found["axis"] = axis if hand.chance(0.8) else axis - len(first)
    else:
        found["order"] = hand.pick(("NCHW", "NHWC"))
        axis = 1 if found["order"] == "NCHW" else len(first) - 1
    shapes = [first]
    for i in range(1, count):
        other = (*first[:axis], hand.integer(0 if hand.chance(0.1) else 1, 40), *first[axis + 1 :])
        shapes.append(hand.given.get(f"X_{i}", other))
    return Sketch(found, {"X": shapes})


@draws("Split", "DepthSplit")
def split(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    axis = hand.integer(0, len(X) - 1)
    found: dict[str, Any] = {"axis": axis if hand.chance(0.8) else axis - len(X)}
    if len(X) >= 2 and hand.chance(0.3):
        found = {"order": hand.pick(("NCHW", "NHWC"))}
        axis = 1 if found["order"] == "NCHW" else len(X) - 1
    extent = X[axis]
    if hand.chance(0.2) and 0 < extent <= 8:
        return Sketch(found | {"add_axis": 1}, {"X": X}, outputs=extent)
    if hand.chance(0.3):
        counts = [n for n in range(1, 6) if extent % n == 0]
        return Sketch(found, {"X": X}, outputs=hand.pick(counts))
    count = hand.integer(1, 5)
    cuts = sorted(hand.integer(0, extent) for _ in range(count - 1))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, extent], strict=True)]
    if hand.chance(0.4):
        return Sketch(found, {"X": X}, {"lengths": np.asarray(parts, np.int32)}, count)
    return Sketch(found | {"split": parts}, {"X": X}, outputs=count)


@draws("Slice", "Int8Slice")
def slice(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    axis = hand.integer(0, len(X) - 1)
    starts, ends = [0] * len(X), [-1] * len(X)
    for i in range(len(X)) if hand.chance(0.3) else (axis,):
        starts[i] = hand.integer(0, X[i])
        ends[i] = hand.pick((-1, hand.integer(starts[i], X[i])))
    if hand.chance(0.4):
        kind = hand.pick((np.int32, np.int64))
        return Sketch({}, {"X": X}, {"first": np.asarray(starts, kind), "behind": np.asarray(ends, kind)})
    return Sketch({"starts": starts, "ends": ends}, {"X": X})


@draws("Transpose")
def transpose(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 5)
    axes = [int(n) for n in hand.rng.permutation(len(X))]
    return Sketch(hand.some({"axes": axes}, 0.85), {"X": X})


@draws("NCHW2NHWC", "NHWC2NCHW")
def reorder(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    return Sketch({}, {"X": hand.image(spatial=(1, 3))[1]})


def regrouped(hand: Hand, shape: Shape) -> list[int]:
    """Return another shape with as many elements."""
    left, found = math.prod(shape), list[int]()
    while left > 1 and len(found) < 4:
        found.append(hand.pick([d for d in range(1, left + 1) if left % d == 0]))
        left //= found[-1]
    return [*found, left]


@draws("Reshape", "Int8Reshape")
def reshape(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X")
    target = regrouped(hand, X)
    if math.prod(X) > 0 and hand.chance(0.4):
        target[hand.integer(0, len(target) - 1)] = -1
    if len(X) > 0 and hand.chance(0.2):
        target = [0, -1] if X[0] > 0 else [0]
    if hand.chance(0.4):
        return Sketch({}, {"X": X}, {"new_shape": np.asarray(target, hand.pick((np.int32, np.int64)))})
    return Sketch({"shape": target}, {"X": X})


@draws("ResizeLike")
def resize_like(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X")
    return Sketch({}, {"X": X, "like": tuple(regrouped(hand, X))})


@draws("Squeeze")
def squeeze(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.given.get("X", tuple(1 if hand.chance(0.5) else extent for extent in hand.dims(1, 5)))
    ones = [i for i, extent in enumerate(X) if extent == 1]
    return Sketch({"dims": [i for i in ones if hand.chance(0.7)]}, {"X": X})


@draws("ExpandDims")
def expand_dims(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 0, 4)
    count = hand.integer(1, 3)
    places = hand.rng.permutation(len(X) + count)[:count]
    return Sketch({"dims": [int(n) for n in places]}, {"X": X})


@draws("Flatten")
def flatten(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X")
    return Sketch(hand.some({"axis": hand.integer(0, len(X))}, 0.7), {"X": X})


@draws("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum")
def reduce(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X")
    axes = [int(n) for n in hand.rng.permutation(len(X))[: hand.integer(0, len(X))]]
    found = hand.some({"axes": [n - len(X) if hand.chance(0.2) else n for n in axes]}, 0.8)
    return Sketch(found | hand.some({"keepdims": hand.chance(0.5)}), {"X": X})


@draws(
    *("ReduceFrontSum", "ReduceFrontMean"),
    *("ReduceBackSum", "ReduceBackMean"),
    *("ReduceFrontMax", "ReduceBackMax"),
)
def reduce_front_back(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 1, 4)
    dims = hand.integer(0, len(X))
    found = hand.some({"num_reduce_dim": dims}, 0.7)
    if hand.chance(0.35):
        front = "Front" in schema.type
        rows, kept = (X[0], math.prod(X[1:])) if front else (X[-1], math.prod(X[:-1]))
        return Sketch(
            {"num_reduce_dim": 1}, {"X": X}, {"lengths": hand.rng.integers(0, rows + 1, kept).astype(np.int32)}
        )
    return Sketch(found, {"X": X})


@draws("Tile", "TileGradient")
def tile(hand: Hand, schema: OpSchema) -> Sketch:
    back = "dY" in schema.inputs_by_letter
    shape = hand.shape("dY" if back else "X", 1, 4)
    at = hand.integer(0, len(shape) - 1)
    axis, tiles = at - len(shape) * hand.integer(0, 1), hand.integer(0 if not back else 1, 4)
    if back:
        shape = (*shape[:at], shape[at] * tiles, *shape[at + 1 :]) if "dY" not in hand.given else shape
        tiles = hand.pick([n for n in range(1, 5) if shape[at] % n == 0])
    given = {"tiles": np.array([tiles], np.int32)} if hand.chance(0.3) else {}
    given |= {"axis": np.array([axis], np.int32)} if given and hand.chance(0.5) else {}
    numbers = {"tiles": tiles, "axis": axis}
    found = {name: value for name, value in numbers.items() if name not in given}
    return Sketch(found, {"dY" if back else "X": shape}, given)


@draws("Expand", "ExpandGradient")
def expand(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 0, 3)
    wanted = [n if n != 1 else hand.integer(1, 4) for n in X]
    wanted = [*(hand.integer(1, 3) for _ in range(hand.integer(0, 2))), *wanted]
    if "dY" in schema.inputs_by_letter:
        return Sketch({}, {"X": X, "dY": tuple(wanted)})
    shown = [hand.pick((1, n)) if n != 1 and i >= len(wanted) - len(X) else n for i, n in enumerate(wanted)]
    return Sketch({}, {"X": X}, {"shape": np.array(shown, np.int64)})


@draws("NumpyTile")
def numpy_tile(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 0, 4)
    return Sketch({}, {"X": X}, {"repeats": np.array([hand.integer(0, 3) for _ in X], np.int64)})


@draws("PrependDim")
def prepend_dim(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    return Sketch({"dim_size": hand.pick(divisors(X[0]) if X[0] else [1, 3])}, {"X": X})


@draws("SplitByLengths")
def split_by_lengths(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    axis, count = hand.integer(0, len(X) - 1), hand.integer(1, 4)
    lengths = np.zeros(count * hand.integer(1, 3), np.int32)
    scaled = hand.chance(0.3)
    total = hand.pick(divisors(X[axis])) if scaled and X[axis] else X[axis]
    np.add.at(lengths, hand.rng.integers(0, lengths.size, total), 1)
    return Sketch({"axis": axis, "use_scaling_lengths": int(scaled)}, {"X": X}, {"lengths": lengths}, count)


@draws("Range")
def range_(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    kind = hand.pick(("i", "q", "f", "d"))
    numbers = [hand.integer(-9, 9), hand.integer(-9, 40), hand.pick((-3, -1, 1, 2, 7))]
    if kind in "fd":
        numbers = [n / 4 for n in numbers]
    names = ("start", "stop", "step")[: hand.integer(1, 3)]
    return Sketch({}, {}, {name: np.array([n], kind) for name, n in zip(names, numbers, strict=False)})


@draws("Scatter")
def scatter(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    axis = hand.integer(0, len(X) - 1)
    taken = [hand.integer(0, n) for n in X]
    taken[axis] = hand.integer(0, 5) if X[axis] else 0
    at = hand.rng.integers(0, max(X[axis], 1), taken).astype(hand.pick((np.int32, np.int64)))
    return Sketch({"axis": axis - len(X) * hand.integer(0, 1)}, {"X": X, "updates": tuple(taken)}, {"indices": at})


@draws("ScatterAssign")
def scatter_assign(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    at = hand.rng.integers(0, max(X[0], 1), hand.integer(0, 5) if X[0] else 0)
    return Sketch({}, {"X": X, "rows": (at.size, *X[1:])}, {"indices": at.astype(hand.pick((np.int32, np.int64)))})


@draws("BatchPermutation", "BatchPermutationGradient")
def batch_permutation(hand: Hand, schema: OpSchema) -> Sketch:
    letter = "dY" if "dY" in schema.inputs_by_letter else "X"
    X = hand.shape(letter, 1, 4)
    return Sketch({}, {letter: X}, {"indices": hand.rng.permutation(X[0]).astype(np.int32)})


@draws("SpaceToBatch", "BatchToSpace")
def space_to_batch(hand: Hand, schema: OpSchema) -> Sketch:
    b, pad = hand.integer(1, 3), hand.integer(0, 2)
    back = schema.type == "BatchToSpace"
    N, C, h, w = hand.batch(), hand.integer(1, 5), hand.size(3), hand.size(3)
    X = hand.given.get("X", (N * b * b, C, h, w) if back else (N, C, h * b, w * b))
    if "X" in hand.given:
        fits = [n for n in (1, 2, 3) if (X[0] % (n * n) == 0 if back else X[2] % n == X[3] % n == 0)]
        b = hand.pick(fits)
    pad = pad if back else pad * b
    return Sketch({"block_size": b, "pad": min(pad, (min(X[2:]) * b) // 2) if back else pad}, {"X": X})


@draws("ResizeNearest3D", "ResizeNearest3DGradient")
def resize_volume(hand: Hand, schema: OpSchema) -> Sketch:
    names = ("temporal_scale", "height_scale", "width_scale")
    scales = {name: hand.pick((0.5, 1.0, 1.5, 2.0)) for name in names}
    X = hand.given.get("X", (hand.batch(), hand.integer(1, 5), hand.size(), hand.size(), hand.size()))
    if "dY" not in schema.inputs_by_letter:
        return Sketch(scales, {"X": X})
    resized = (int(n * scale) for n, scale in zip(X[2:], scales.values(), strict=True))
    return Sketch(scales, {"X": X, "dY": (*X[:2], *resized)})
