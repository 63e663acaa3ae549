"""Losses, and how good scores are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.operators.row import FAST, Array, Draw, F, Row, family, torch


def _softmax(x: Array) -> Array:
    given = np.exp(x - x.max(1, keepdims=True))
    return (given / given.sum(1, keepdims=True)).astype(np.float32)


@family(FAST)
def loss(draw: Draw) -> Iterator[Row]:
    """A thousand classes; a million scores of two."""
    M, K = draw.square
    scores, label = draw.normal(M, K), draw.whole(K, M, dtype=np.int32)
    theirs = [scores, label.astype(np.int64)]
    yield Row(
        "SoftmaxWithLoss",
        [scores, label],
        lambda x, y: (None, F.cross_entropy(x, y)),
        outputs=2,
        theirs=theirs,
    )
    chances = _softmax(scores)
    yield Row(
        "LabelCrossEntropy",
        [chances, label],
        lambda p, y: F.nll_loss(torch.log(p), y, reduction="none"),
        theirs=[chances, label.astype(np.int64)],
        gradient=[0],
    )
    wanted = _softmax(draw.normal(M, K))
    yield Row("CrossEntropy", [chances, wanted], lambda p, y: -torch.sum(y * torch.log(p), 1), gradient=[0])
    yield Row(
        "SigmoidCrossEntropyWithLogits",
        [scores, wanted],
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none").mean(1),
        gradient=[0],
    )
    weights = draw.between(0.5, 2, M, K)
    yield Row(
        "WeightedSigmoidCrossEntropyWithLogits",
        [scores, wanted, weights],
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w, reduction="none").mean(1),
        gradient=[0],
    )
    yield from _images(draw)
    yield from _single(draw)
    yield Row("Accuracy", [scores, label], lambda x, y: (x.argmax(1) == y).float().mean(), theirs=theirs)


def _images(draw: Draw) -> Iterator[Row]:
    N, C, H = draw.extent(4, 2), draw.extent(21, 3), draw.extent(112, 5)
    scores, label = draw.normal(N, C, H, H), draw.whole(C, N, H, H, dtype=np.int32)
    yield Row(
        "SpatialSoftmaxWithLoss",
        [scores, label],
        lambda x, y: (None, F.cross_entropy(x, y)),
        outputs=2,
        theirs=[scores, label.astype(np.int64)],
    )


def _single(draw: Draw) -> Iterator[Row]:
    n = draw.many
    x, y = draw.normal(n), draw.normal(n)
    yield Row("AveragedLoss", [x], lambda x: torch.mean(x), gradient=[0])
    ones = np.ones(n, np.float32)
    yield Row(
        "SmoothL1Loss",
        [x.reshape(-1, 10), y.reshape(-1, 10), ones.reshape(-1, 10), ones.reshape(-1, 10)],
        lambda a, b, _, __: F.smooth_l1_loss(a, b, reduction="sum") / len(a),
        gradient=[0],
    )
    side = np.where(draw.yes(n), 1, -1).astype(np.int32)
    yield Row(
        "MarginRankingCriterion",
        [x, y, side],
        lambda a, b, s: F.margin_ranking_loss(a, b, s, 0.5, reduction="none"),
        {"margin": 0.5},
        theirs=[x, y, side.astype(np.float32)],
        gradient=[0, 1],
    )
    yield Row("MakeTwoClass", [draw.between(0.1, 0.9, n)], lambda x: torch.stack([1 - x, x], 1), gradient=[0])
