"""Lookups in tables, and sums of segments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.operators.row import Array, Draw, F, Peer, Row, family, torch

BAGS = {"SparseLengthsSum": "sum", "SparseLengthsMean": "mean", "SparseLengthsMax": "max"}
LENGTHS = {"LengthsSum": "sum", "LengthsMean": "mean", "LengthsMax": "max"}


def _starts(lengths: Array) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)


@family()
def lookup(draw: Draw) -> Iterator[Row]:
    """20000 rows of a table of 200000, 64 numbers each."""
    rows, K, few = draw.extent(200_000, 50), draw.extent(64, 7), draw.extent(20_000, 24)
    table, places = draw.normal(rows, K), draw.whole(rows, few)
    yield Row("Gather", [table, places], lambda x, i: F.embedding(i, x))
    batch = draw.normal(draw.extent(100, 4), draw.extent(1000, 9), 16)
    chosen = draw.whole(batch.shape[1], draw.extent(500, 6))
    yield Row("BatchGather", [batch, chosen], lambda x, i: torch.index_select(x, 1, i), gradient=[0])
    lengths = np.full(few // 4, 4, np.int32)
    starts = _starts(lengths)
    for type, mode in BAGS.items():
        yield Row(
            type,
            [table, places, lengths],
            lambda x, i, s, m=mode: F.embedding_bag(i, x, s, mode=m),
            theirs=[table, places, starts],
        )
    weights = draw.between(0.5, 2, few)
    yield Row(
        "SparseLengthsWeightedSum",
        [table, weights, places, lengths],
        lambda x, w, i, s: F.embedding_bag(i, x, s, mode="sum", per_sample_weights=w),
        theirs=[table, weights, places, starts],
    )


@family()
def segment(draw: Draw) -> Iterator[Row]:
    """20000 rows of 64 in segments of 4, or of any size."""
    few, K = draw.extent(20_000, 24), draw.extent(64, 7)
    x, lengths = draw.normal(few, K), np.full(few // 4, 4, np.int32)
    for type, mode in LENGTHS.items():
        yield Row(
            type,
            [x, lengths],
            lambda x, n, m=mode: torch.segment_reduce(x, m, lengths=n),
            theirs=[x, lengths.astype(np.int64)],
            gradient=[0],
        )
    count = few // 4
    ids = np.repeat(np.arange(count), 4).astype(np.int32)
    anywhere = draw.order(few, np.int32) % np.int32(count)
    summed: Peer = lambda x, i: torch.zeros(count, x.shape[1]).index_add_(0, i, x)  # noqa: E731
    meant: Peer = lambda x, i: torch.zeros(count, x.shape[1]).index_reduce_(0, i.long(), x, "mean", include_self=False)  # noqa: E731
    yield Row("SortedSegmentSum", [x, ids], summed, gradient=[0])
    yield Row("SortedSegmentMean", [x, ids], meant, gradient=[0])
    yield Row("UnsortedSegmentSum", [x, anywhere], summed, {"num_segments": count}, gradient=[0])
    yield Row("UnsortedSegmentMean", [x, anywhere], meant, {"num_segments": count}, gradient=[0])
    places = draw.whole(few, few)
    gathered: Peer = lambda x, i, s: torch.zeros(count, x.shape[1]).index_add_(0, s, x[i])  # noqa: E731
    yield Row("SparseSortedSegmentSum", [x, places, ids], gathered)
    yield Row("SparseUnsortedSegmentSum", [x, places, anywhere], gathered, {"num_segments": count})
    yield Row("ReduceFrontWeightedSum", [x, draw.normal(few)], lambda x, w: w @ x)
    yield from _forms(draw, x, lengths)


def _forms(draw: Draw, x: Array, lengths: Array) -> Iterator[Row]:
    wide = lengths.astype(np.int64)
    count = len(lengths)
    yield Row(
        "LengthsToSegmentIds",
        [lengths],
        lambda n: torch.repeat_interleave(torch.arange(count), n),
        theirs=[wide],
    )
    yield Row("LengthsToOffsets", [lengths], lambda n: torch.cumsum(n, 0) - n, theirs=[wide])
    yield Row("LengthsToWeights", [lengths], lambda n: (1 / n.sqrt()).repeat_interleave(n), theirs=[wide])
    ids = np.repeat(np.arange(count), 4).astype(np.int32)
    yield Row("SegmentIdsToLengths", [ids], lambda i: torch.bincount(i))
    some = x[:count].copy()
    yield Row("LengthsTile", [some, lengths], lambda x, n: torch.repeat_interleave(x, n, 0), theirs=[some, wide])
    various = draw.whole(8, count, dtype=np.int32)
    various[0] = 7
    rows = draw.normal(int(various.sum()), 16)
    split = various.tolist()
    yield Row(
        "PackSegments",
        [various, rows],
        lambda _, x: torch.nn.utils.rnn.pad_sequence(x.split(split), True),
        gradient=[1],
    )
    places = draw.order(draw.extent(100_000, 60), np.int32)[: len(x)].copy()
    like = np.zeros((draw.extent(100_000, 60), 1), np.float32)
    yield Row(
        "SparseToDense",
        [places, x, like],
        lambda i, x, like: torch.zeros(len(like), x.shape[1]).index_add_(0, i, x),
        gradient=[1],
    )
