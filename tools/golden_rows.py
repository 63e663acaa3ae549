"""Further cases for `record_golden`: segments, rows that indices pick and their updates, the largest, proposals.

python3.8 -m tools.golden_rows [FOLDER [TYPE ...]]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import Call, main, numbers


def whole(*values: int) -> Any:
    """Return int32 lengths or indices."""
    return np.array(values, np.int32)


def signed(*shape: int) -> Any:
    """Return float32 numbers around 0, the same in every run."""
    return np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32)


def halves(*shape: int) -> Any:
    """Return numbers of which some are equal."""
    found: Any = signed(*shape) * 2
    return found.round() / 2


def segments() -> list[tuple[str, list[Call]]]:
    """Sums of segments, and their gradients."""
    counts, picks = whole(2, 0, 4, 1), np.array([10, 3, 3, 0, 7, 10, 5])
    found: list[tuple[str, list[Call]]] = []
    shapes = [(3,), (2, 5), ()]
    inputs: dict[str, Any] = {
        "LengthsSum": [{"DATA": signed(7, *s), "LENGTHS": counts} for s in shapes],
        "SparseLengthsSum": [
            *({"DATA": signed(11, *s), "INDICES": picks, "LENGTHS": counts} for s in shapes),
            {"DATA": signed(11, 6), "INDICES": picks.astype(np.int32), "LENGTHS": whole(0, 7)},
            {"DATA": signed(11, 4).astype(np.float16), "INDICES": picks, "LENGTHS": counts},
        ],
        "LengthsSumGradient": [{"dY": signed(4, *s), "LENGTHS": counts} for s in shapes],
        "SparseLengthsSumGradient": [{"dY": signed(4, *s), "LENGTHS": counts} for s in shapes],
        "LengthsIndicesInGradientSumGradient": [
            {"dY": signed(4, *s), "LENGTHS": counts, "DATA": signed(7, *s)} for s in shapes
        ],
        "SparseLengthsIndicesInGradientSumGradient": [
            {"dY": signed(4, *s), "LENGTHS": counts, "INDICES": picks} for s in shapes
        ],
    }
    for operator, calls in inputs.items():
        found.append((operator, [Call(given, ["y"], {}) for given in calls]))
    return found


def updates() -> list[tuple[str, list[Call]]]:
    """Updates of whole parameters and of some rows, one of which is there twice."""
    rate, rows = np.array([-0.3], np.float32), np.array([4, 0, 4, 2])
    whole_step: dict[str, Any] = {"W": signed(5, 3), "M": numbers(5, 3), "dW": signed(3, 5).reshape(5, 3), "lr": rate}
    of_rows: dict[str, Any] = {"W": signed(5, 3), "M": numbers(5, 3), "i": rows, "dW": signed(4, 3), "lr": rate}
    flat: dict[str, Any] = {"W": signed(6), "M": numbers(6), "i": rows.astype(np.int32), "dW": signed(4), "lr": rate}
    counted: dict[str, Any] = {"W": signed(5, 3), "M": signed(3, 5).reshape(5, 3), "V": numbers(5, 3), "i": rows}
    counted.update({"dW": signed(4, 3), "lr": rate, "t": np.array([6])})
    momentum: dict[str, Any] = {"dW": signed(4, 3), "M": signed(5, 3), "lr": -rate, "W": signed(5, 3) + 1, "i": rows}
    kinds: list[dict[str, Any]] = [{"epsilon": 0.01}, {"epsilon": 0.1, "weight_decay": 0.2}]
    return [
        (
            "Adagrad",
            [
                *(Call(whole_step, ["W", "M"], args) for args in kinds),
                Call(whole_step, ["W2", "M2", "rate", "step"], {"decay": 0.7, **kinds[1]}),
                Call(whole_step, ["W", "M", "rate"], {}),
            ],
        ),
        ("SparseAdagrad", [Call(given, ["W", "M"], args) for given in (of_rows, flat) for args in kinds]),
        ("SparseAdam", [Call(counted, ["W", "M", "V"], {"beta1": beta, "epsilon": 0.01}) for beta in (0.5, 0.9)]),
        (
            "SparseMomentumSGDUpdate",
            [
                Call(momentum, [step, "M", "W"], {"momentum": 0.75, "nesterov": nesterov})
                for step, nesterov in (("dW", 1), ("step", 0))
            ],
        ),
    ]


def largest() -> list[tuple[str, list[Call]]]:
    """The k largest numbers, equal ones among them, and their gradient."""
    X = halves(3, 7, 4)
    k = np.array([2])
    back = np.array([[4, 0, 2], [6, 1, 0]])
    return [
        (
            "TopK",
            [
                Call({"X": X}, ["V", "I"], {"k": 2}),
                Call({"X": X}, ["V", "I", "F"], {"k": 3, "axis": 1}),
                Call({"X": X}, ["V", "I", "F"], {"k": 2, "axis": 0}),
                Call({"X": X}, ["V", "I", "F"], {"k": 6}),
                Call({"X": X, "k": k}, ["V", "I"], {}),
                Call({"X": signed(9)}, ["V", "I", "F"], {"k": 4}),
                Call({"X": X[:0]}, ["V", "I", "F"], {"k": 2}),
            ],
        ),
        (
            "TopKGradient",
            [
                Call({"dV": signed(2, 3), "I": back, "X": signed(2, 7)}, ["dX"], {"k": 3}),
                Call({"dV": signed(3, 2), "I": back.T.copy(), "X": signed(7, 2)}, ["dX"], {"k": 3, "axis": 0}),
                Call({"dV": signed(2, 3), "I": np.where(back == 6, -1, back), "X": signed(2, 7)}, ["dX"], {"k": 3}),
            ],
        ),
    ]


ANCHORS = np.array([[-12, -12, 19, 19], [-20, -6, 27, 13], [-6, -24, 13, 31]], np.float32)


def proposals() -> list[tuple[str, list[Call]]]:
    """Boxes that may hold something, of two images of unlike size."""
    draw = np.random.RandomState(7)
    scores = draw.permutation(2 * 3 * 5 * 4).reshape(2, 3, 5, 4).astype(np.float32) / 120
    deltas = (draw.randn(2, 12, 5, 4) * 0.4).astype(np.float32)
    images = np.array([[80, 60, 1], [70, 64, 1.5]], np.float32)
    given: dict[str, Any] = {"scores": scores, "deltas": deltas, "im_info": images, "anchors": ANCHORS}
    kinds: list[dict[str, Any]] = [
        {},
        {"nms_thresh": 0.3, "min_size": 4.0},
        {"nms_thresh": 0.9, "min_size": 0.0, "pre_nms_topN": 30, "post_nms_topN": 11},
        {"nms_thresh": 0.5, "spatial_scale": 0.125, "legacy_plus_one": 0},
        {"nms_thresh": 0.5, "pre_nms_topN": 0, "post_nms_topN": -1, "min_size": 60.0},
        {"min_size": 1000.0},
    ]
    return [("GenerateProposals", [Call(given, ["rois", "probs"], args) for args in kinds])]


def maxima() -> list[tuple[str, list[Call]]]:
    """The largest of each row or column of matrices, backwards, with some that are equal."""
    found: list[tuple[str, list[Call]]] = []
    for operator, axis in (("RowwiseMaxGradient", 2), ("ColwiseMaxGradient", 1)):
        calls = [(x, x.max(axis)) for x in (halves(2, 5, 7), halves(1, 3, 4))]
        found.append((operator, [Call({"X": x, "Y": y, "dY": signed(*y.shape)}, ["dX"], {}) for x, y in calls]))
    return found


if __name__ == "__main__":
    main([segments, updates, largest, proposals, maxima])
