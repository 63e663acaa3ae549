"""Losses of the order of scores, within sessions that lengths tell."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.families.segment import lengths_of
from tests.judge.hand import Hand, Sketch, draws


@draws("PairWiseLoss", "PairWiseLossGradient")
def pair_wise_loss(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw labels of which some are alike: those make no pair."""
    N = hand.integer(0, 20)
    sessions = lengths_of(hand, N)
    values: dict[str, Any] = {"label": hand.rng.integers(0, 4, N).astype(np.float32)}
    with_lengths = hand.chance(0.6)
    if with_lengths:
        values["lengths"] = sessions
    shapes = {"X": hand.pick(((N,), (N, 1)))}
    if "dY" in schema.inputs_by_letter:
        shapes["dY"] = (0 if N == 0 else len(sessions) if with_lengths else 1,)
    return Sketch({}, shapes, values)


@draws("LambdaRankNdcg")
def lambda_rank_ndcg(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw scores that all differ, and sometimes more of them than documents."""
    del schema
    N = hand.integer(0, 20)
    scores = hand.rng.permutation(np.linspace(-2, 2, N + hand.integer(0, 1) * hand.integer(0, 3)))
    relevance = hand.rng.integers(0, 5, scores.size)
    values = {"y": scores.astype(np.float32), "r": relevance.astype(np.float32), "lengths": lengths_of(hand, N)}
    names = ("use_ndcg_as_loss", "use_idcg_normalization", "use_exp_gain")
    found = hand.some({name: hand.integer(0, 1) for name in names})
    if not found.get("use_ndcg_as_loss"):
        found.pop("use_exp_gain", None)
    return Sketch(found, {}, values)
