"""Lists of ids with lengths: as dense tensors, padded, picked by ranges, divided among shards, cut and repeated."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.families.segment import lengths_of, picked
from tests.judge.hand import Array, Hand, Sketch, draws


@draws("SparseToDense")
def sparse_to_dense(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    rows = hand.integer(1, 12)
    like: dict[str, Any] = {"like": (rows, *hand.dims(0, 2))} if hand.chance(0.5) else {}
    return Sketch({}, {"X": X, **like}, {"indices": hand.rng.integers(0, rows, X[0])})


@draws("SparseToDenseMask", "SparseToDenseMaskGradient")
def sparse_to_dense_mask(hand: Hand, schema: OpSchema) -> Sketch:
    mask = hand.rng.permutation(9)[: hand.integer(1, 5)].tolist()
    given: dict[str, Any] = {"mask": mask}
    row = hand.shape("X", 1, 3)[1:] if "X" in schema.inputs_by_letter else hand.dims(0, 2)
    K = hand.given["X"][0] if "X" in hand.given else hand.integer(0, 12)
    values: dict[str, Any] = {"ids": hand.rng.integers(0, 10, K)}
    if hand.chance(0.7):
        values["lengths"] = lengths_of(hand, K)
    if "dY" in schema.inputs_by_letter:
        before = (values["lengths"].size, len(mask)) if "lengths" in values else (len(mask),)
        return Sketch(given, {"dY": (*before, *row)}, values)
    marks = hand.chance(0.5)
    known = {**given, "return_presence_mask": 1} if marks else given
    return Sketch(known, {"X": (K, *row), "default": row}, values, outputs=1 + marks)


@draws("BatchSparseToDense", "BatchDenseToSparse")
def batch_sparse_to_dense(hand: Hand, schema: OpSchema) -> Sketch:
    N, D = hand.given.get("dense", (hand.integer(0, 6), hand.integer(1, 12)))
    marks = hand.rng.random((N, D)) < 0.4
    values: dict[str, Any] = {"lengths": marks.sum(1), "indices": np.nonzero(marks)[1]}
    if schema.type == "BatchDenseToSparse":
        return Sketch({}, {"dense": (N, D)}, values)
    shapes: dict[str, Any] = {"values": (int(marks.sum()),)}
    if hand.chance(0.5):
        return Sketch({}, {**shapes, "like": (hand.integer(0, 4), D)}, values)
    return Sketch({"dense_last_dim": D, **hand.some({"default_value": hand.real(-1, 1)})}, shapes, values)


@draws("AddPadding", "RemovePadding", "GatherPadding")
def padding(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 1, 3)
    s, e = hand.integer(0, 2), hand.integer(-1, 2)
    both = s + (s if e < 0 else e)
    widths: dict[str, Any] = {"padding_width": s, "end_padding_width": e}
    found = lengths_of(hand, X[0])
    if schema.type != "AddPadding":
        found = np.array(hand.rng.integers(both, both + 4, hand.integer(1, 4)), np.int32)
    shapes: dict[str, Any] = {"X": (int(found.sum()), *X[1:])}
    if schema.type == "GatherPadding":
        return Sketch(widths, shapes, {"lengths": found}, outputs=hand.integer(1, 2))
    if schema.type == "AddPadding" and hand.chance(0.5):
        shapes |= {"first": X[1:], "last": X[1:]} if hand.chance(0.5) else {"first": X[1:]}
    return Sketch(widths, shapes, {"lengths": found}, outputs=2)


@draws("PadEmptySamples")
def pad_empty_samples(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    rows, count = hand.integer(0, 8), hand.integer(0, 3)
    shapes: dict[str, Any] = {"X": [(rows, *hand.dims(0, 2)) for _ in range(count)]} if count else {}
    return Sketch({}, shapes, {"lengths": lengths_of(hand, rows)}, outputs=1 + count)


def ranges_of(hand: Hand, count: int, sizes: Array) -> Array:
    """Return ranges of these lengths among so many elements."""
    starts = (hand.rng.random(sizes.shape) * (count - sizes + 1)).astype(np.int64)
    return np.stack([starts, sizes], axis=-1).astype(hand.pick((np.int32, np.int64)))


@draws("GatherRanges")
def gather_ranges(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    (count,) = hand.shape("X", 1, 1)
    sizes = hand.rng.integers(0, min(count, 5) + 1, (hand.integer(0, 4), hand.integer(1, 4)))
    return Sketch({}, {"X": (count,)}, {"ranges": ranges_of(hand, count, sizes)})


@draws("GatherRangesToDense")
def gather_ranges_to_dense(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    count = max(hand.shape("X", 1, 1)[0], 1)
    lengths = hand.rng.integers(1, min(count, 5) + 1, hand.integer(1, 4))
    sizes = lengths * (hand.rng.random((hand.integer(0, 4), lengths.size)) < 0.7)
    values: dict[str, Any] = {"ranges": ranges_of(hand, count, sizes)}
    if hand.chance(0.5):
        values["key"] = hand.rng.permutation(count)
    return Sketch({"lengths": lengths.tolist()}, {"X": (count,)}, values, outputs=lengths.size)


@draws("LengthsGather", "LengthsPad")
def segments_of_rows(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 1, 4)
    lengths = lengths_of(hand, X[0])
    if schema.type == "LengthsGather":
        indices = picked(hand, lengths.size, hand.integer(0, 6))
        return Sketch({}, {"X": X}, {"lengths": lengths, "indices": indices})
    longer = {"target_length": max(int(lengths.max(initial=0)), 1) + hand.integer(0, 2)}
    return Sketch(longer | hand.some({"padding_value": hand.real(-3, 3)}), {"X": X}, {"lengths": lengths})


@draws("LengthsTile")
def lengths_tile(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    return Sketch({}, {"X": X}, {"lengths": hand.rng.integers(0, 4, X[0]).astype(np.int32)})


@draws("ReversePackedSegs", "VariableLengthSequencePadding")
def side_by_side(hand: Hand, schema: OpSchema) -> Sketch:
    X = hand.shape("X", 3, 3 if schema.type == "ReversePackedSegs" else 4)
    return Sketch({}, {"X": X}, {"lengths": hand.rng.integers(0, X[0], X[1], endpoint=True).astype(np.int32)})


@draws("RemoveDataBlocks")
def remove_data_blocks(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 4)
    return Sketch({}, {"X": X}, {"indices": picked(hand, X[0], hand.integer(0, 6))})


@draws("Partition", "LengthsPartition")
def partition(hand: Hand, schema: OpSchema) -> Sketch:
    by_lengths = schema.type == "LengthsPartition"
    own = hand.dims(1, 1 if by_lengths else 3, elements=50)
    count = hand.integer(0, 2)
    values: dict[str, Any] = {"index": hand.rng.integers(-20, 20, own).astype(hand.pick((np.int32, np.int64)))}
    if by_lengths:
        values["lengths"] = lengths_of(hand, own[0])
    shapes: dict[str, Any] = {"X": [(*own, *hand.dims(0, 2, elements=20)) for _ in range(count)]} if count else {}
    each = 1 + by_lengths + count
    return Sketch({"pack_first_input": hand.integer(0, 1)}, shapes, values, outputs=each * hand.integer(1, 4))


@draws("LengthsSplit")
def lengths_split(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    n, lengths = hand.integer(1, 5), hand.rng.integers(0, 20, hand.integer(0, 8)).astype(np.int32)
    values: dict[str, Any] = {"lengths": lengths}
    return Sketch({}, {}, {**values, "n": np.array([n])}) if hand.chance(0.5) else Sketch({"n_split": n}, {}, values)


@draws("LengthsToShape")
def lengths_to_shape(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    return Sketch({}, {}, {"lengths": np.full(hand.integer(1, 8), hand.integer(0, 9), np.int32)})


@draws("LengthsTopK", "LengthsTopKGradient")
def lengths_top_k(hand: Hand, schema: OpSchema) -> Sketch:
    k = hand.integer(1, 4)
    if schema.type == "LengthsTopK":
        (count,) = hand.shape("X", 1, 1)  # the gradient is a list, whatever shape X has
        return Sketch({"k": k}, {"X": (count,)}, {"lengths": lengths_of(hand, count)})
    lengths = lengths_of(hand, hand.integer(0, 12))
    P = np.full((lengths.size, k), -1, np.int32)
    for row, count in zip(P, lengths, strict=True):
        row[: min(k, count)] = hand.rng.permutation(count)[:k]
    return Sketch({"k": k}, {"dV": P.shape}, {"lengths": lengths, "P": P})


@draws("SparseLengthsPositionalWeightedSum")
def positional_weighted_sum(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    DATA = hand.shape("DATA", 1, 3)
    indices = picked(hand, DATA[0], hand.integer(0, 12))
    lengths = lengths_of(hand, indices.size)
    weights = (int(lengths.max(initial=0)) + hand.integer(0, 2),)
    return Sketch({}, {"DATA": DATA, "WEIGHTS": weights}, {"INDICES": indices, "LENGTHS": lengths})


@draws("Float16SparseNormalize")
def half_normalize(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    W = hand.shape("W", 1, 3)
    indices = picked(hand, W[0], hand.integer(0, 4))
    slopes = {"dW": (indices.size, *W[1:])} if hand.chance(0.5) else {}
    return Sketch(hand.some({"norm": hand.real(0.2, 3)}), {"W": W, **slopes}, {"indices": indices})


@draws("SparseDropoutWithReplacement")
def replacing_dropout(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    (count,) = hand.shape("X", 1, 1)
    return Sketch(hand.some({"ratio": hand.real(0, 1)}), {"X": (count,)}, {"lengths": lengths_of(hand, count)})


@draws("IndexHash")
def index_hash(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    return Sketch({"modulo": hand.integer(1, 2**30), **hand.some({"seed": hand.integer(-9, 2**40)})})


@draws("UnsafeCoalesce")
def coalesce(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    shapes = [hand.dims(0, 3, elements=60) for _ in range(hand.integer(1, 4))]
    return Sketch({}, {"X": shapes}, {}, outputs=len(shapes) + 1)
