"""Calls that `record_unlike` records: losses, what measures a prediction, paths and labels that are decoded."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import Call, labels, numbers, signed

SESSIONS = labels(3, 0, 4)
"""Lengths of three sessions, of seven documents in all."""


def judged() -> list[tuple[str, list[Call]]]:
    """Losses of scores and labels, and their gradients."""
    scores = [(signed(2, 3), signed(2, 3, seed=1)), (signed(4, 1, 5), signed(20, seed=1))]
    signs = [np.array([[1, -1, 1], [0, 2, -1]], "i"), (np.arange(20) % 3 - 1).astype("i")]
    far: list[dict[str, Any]] = [{}, {"margin": 0.25}]
    both = list(zip(scores, signs, far))  # noqa: B905 -- Python 3.8
    chances = [(numbers(2, 3) % 1, numbers(3, 2) % 0.75), (numbers(4, 7) % 0.625, numbers(28) % 1)]
    ranked = [({"X": signed(7, 1), "label": np.array([2, 0, 1, 1, 3, 0, 3], "f")}, SESSIONS)]
    relevant = {"r": np.array([2, 0, 1, 1, 3, 0, 3], "f"), "lengths": labels(3, 4)}
    loss: list[dict[str, Any]] = [{}, {"use_ndcg_as_loss": 1, "use_idcg_normalization": 0, "use_exp_gain": 0}]
    return [
        ("MarginRankingCriterion", [Call({"X1": a, "X2": b, "Y": y}, ["loss"], m) for (a, b), y, m in both]),
        (
            "MarginRankingCriterionGradient",
            [Call({"X1": a, "X2": b, "Y": y, "d": b}, ["dX1", "dX2"], m) for (a, b), y, m in both],
        ),
        ("CosineEmbeddingCriterion", [Call({"S": a, "Y": y}, ["loss"], m) for (a, _), y, m in both]),
        ("CosineEmbeddingCriterionGradient", [Call({"S": a, "Y": y, "d": b}, ["dS"], m) for (a, b), y, m in both]),
        ("BernoulliJSD", [Call({"X": x, "T": t}, ["L"], {}) for x, t in chances]),
        ("BernoulliJSDGradient", [Call({"dL": t, "X": x, "T": t.copy()}, ["dX"], {}) for x, t in chances]),
        (
            "PairWiseLoss",
            [Call(one, ["Y"], {}) for one, _ in ranked] + [Call({**one, "m": m}, ["Y"], {}) for one, m in ranked],
        ),
        (
            "PairWiseLossGradient",
            [Call({**one, "dY": signed(1)}, ["dX"], {}) for one, _ in ranked]
            + [Call({**one, "dY": signed(3), "m": m}, ["dX"], {}) for one, m in ranked],
        ),
        ("LambdaRankNdcg", [Call({"y": signed(7), **relevant}, ["loss", "lambdas"], args) for args in loss]),
        (
            "LambdaRankNdcgGradient",
            [Call({"y": signed(7), "lengths": labels(3, 4), "l": signed(7, seed=1), "d": signed(2)}, ["dy"], {})],
        ),
    ]


def of_places() -> list[tuple[str, list[Call]]]:
    """Labels of images, of classes, of steps."""
    image, label = signed(2, 3, 4, 5), (np.arange(40).reshape(2, 4, 5) % 4 - 1).astype("i")
    weights, one = numbers(2, 4, 5), np.array(1.5, "f")
    scaled = {"scale": 0.5}
    steps, within = signed(5, 2, 4), labels(3, 5)
    likely = np.exp(steps) / np.exp(steps).sum(axis=2, keepdims=True)
    wide: dict[str, Any] = {"beam_width": 3, "num_candidates": 2, "prune_threshold": 0.125}
    path = labels(1, 0, 2, 2)
    return [
        (
            "SpatialSoftmaxWithLoss",
            [
                Call({"X": image, "label": label}, ["P", "loss"], scaled),
                Call({"X": image, "label": label, "weights": weights}, ["P", "loss"], {}),
            ],
        ),
        (
            "SpatialSoftmaxWithLossGradient",
            [
                Call({"X": image, "label": label, "P": image, "d": one}, ["dX"], scaled),
                Call({"X": image, "label": label, "weights": weights, "P": image, "d": one}, ["dX"], scaled),
            ],
        ),
        ("MultiClassAccuracy", [Call({"X": signed(7, 3), "label": labels(0, 2, 2, 0, 2, 0, 0)}, ["a", "n"], {})]),
        ("Perplexity", [Call({"P": numbers(7) % 1}, ["Y"], {}), Call({"P": numbers(5, 1) % 1}, ["Y"], {})]),
        ("APMeter", [Call({"X": signed(7, 3), "label": signed(7, 3, seed=1).round().astype("i")}, ["AP"], {})]),
        ("ViterbiPath", [Call({"P": signed(4, 3), "A": signed(3, 3, seed=1)}, ["path"], {})]),
        ("SwapBestPath", [Call({"P": signed(4, 3), "path": path}, ["Q"], {})]),
        (
            "CTCGreedyDecoder",
            [
                Call({"X": steps, "lengths": within}, ["n", "values"], {}),
                Call({"X": steps}, ["n", "values"], {"merge_repeated": 0}),
            ],
        ),
        (
            "CTCBeamSearchDecoder",
            [
                Call({"X": likely, "lengths": within}, ["n", "values", "p"], {"num_candidates": 3}),
                Call({"X": likely}, ["n", "values", "p"], wide),
            ],
        ),
    ]
