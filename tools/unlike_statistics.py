"""Calls that `record_unlike` records: products by rows, moments, gates, percentiles, histograms, sums over images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import NHWC, Call, signed
from tools.unlike_extents import FLAT, SOLID

IMAGE = (2, 3, 4, 5)
"""(N, C, H, W), or (N, H, W, C)."""


def multiplied() -> list[tuple[str, list[Call]]]:
    """Products with weights that lie transposed, with a number for each row, and of all pairs."""
    deep: dict[str, Any] = {"axis": 2, "axis_w": 2}
    x, w = signed(2, 3, 20), signed(5, 4, 2, 3, seed=1)
    pairs = [np.array([0, 5, 7, 5], "i"), np.array([3, 1], "i")]
    blobs = [signed(*SOLID, seed=i) for i in range(3)]
    return [
        (
            "FCTransposed",
            [
                Call({"X": signed(4, 6), "W": signed(6, 7), "b": signed(7)}, ["Y"], {}),
                Call({"X": x, "W": w, "b": signed(6)}, ["Y"], deep),
            ],
        ),
        (
            "FCTransposedGradient",
            [
                Call({"X": signed(4, 6), "W": signed(6, 7), "dY": signed(4, 7)}, ["dW", "db"], {}),
                Call({"X": x, "W": w, "dY": signed(6, 6)}, ["dW", "db", "dX"], deep),
            ],
        ),
        ("RowMul", [Call({"X": signed(*s), "w": signed(s[0], seed=1)}, ["Y"], {}) for s in (SOLID, FLAT)]),
        ("ReduceTailSum", [Call({"X": signed(*s)}, ["Y"], {}) for s in (SOLID, FLAT)]),
        (
            "ConcatBatchMatMulBatchGatherOp",
            [
                Call({"pairs": pairs[0], "A": blobs[0], "B": blobs[1], "C": blobs[2]}, ["Y"], {}),
                Call({"pairs": pairs[1], "A": signed(*FLAT), "B": signed(*FLAT, seed=1)}, ["Y"], {}),
            ],
        ),
    ]


def summed_up() -> list[tuple[str, list[Call]]]:
    """Moments of axes and of channels, and their gradients."""
    image = signed(*IMAGE)
    one: dict[str, Any] = {"axes": [1], "keepdims": 0}
    two: dict[str, Any] = {"axes": [2, 0]}
    three, five = signed(3), signed(5, seed=1)
    parts = [signed(2, 5), signed(2, 5, seed=1)], [signed(1, 3, 1), signed(1, 3, 1, seed=1)]
    steps: dict[str, Any] = {"mean": three, "inv_std": three * three}
    return [
        ("Moments", [Call({"X": signed(*SOLID)}, ["mean", "variance"], by) for by in (one, two)]),
        (
            "MomentsGradient",
            [
                Call({"dm": dm, "dv": dv, "X": signed(*SOLID), "mean": dm + 1}, ["dX"], by)
                for (dm, dv), by in ((parts[0], one), (parts[1], two))
            ],
        ),
        *(
            (name, [Call({"X": image}, ["a", "b"], by) for by in ({}, NHWC)])
            for name in ("BatchMoments", "ChannelStats")
        ),
        (
            "BatchMomentsGradient",
            [
                Call({"da": three, "db": three[::-1].copy(), "X": image}, ["dX"], {}),
                Call({"da": five, "db": five[::-1].copy(), "X": image}, ["dX"], dict(NHWC)),
            ],
        ),
        (
            "ChannelBackpropStats",
            [
                Call({"X": x, **steps, "dY": x[::-1].copy()}, ["dscale", "dbias"], {})
                for x in (image[:, :, 0].copy(), image[..., np.newaxis].copy())
            ],
        ),
    ]


def normalized() -> list[tuple[str, list[Call]]]:
    """Rows that are normalized."""
    rows = {"X": signed(*SOLID), "gamma": signed(15, seed=1), "beta": signed(15, seed=2)}
    deep = {"X": signed(*SOLID), "gamma": signed(5, seed=1), "beta": signed(5, seed=2)}
    return [
        ("RMSNorm", [Call(rows, ["Y", "r"], {"eps": 0.5}), Call(deep, ["Y", "r"], {"axis": 2})]),
        (
            "RMSNormGradient",
            [
                Call(
                    {"dY": signed(*FLAT), "X": signed(*FLAT, seed=1), "g": signed(7), "r": signed(4)},
                    ["a", "b", "c"],
                    {},
                ),
                Call(
                    {"dY": signed(*SOLID), "X": signed(*SOLID, seed=1), "g": signed(5), "r": signed(2, 3)},
                    ["a", "b", "c"],
                    {"axis": -1},
                ),
            ],
        ),
        (
            "C10LayerNorm_DontUseThisOpYet",
            [
                Call({"X": signed(*SOLID)}, ["Y", "mean", "std"], {"axis": 2, "epsilon": 0.5}),
                Call(rows, ["Y", "mean", "std"], {"elementwise_affine": True}),
            ],
        ),
    ]


def gated() -> list[tuple[str, list[Call]]]:
    """Gates, and smooth rectifiers."""
    pairs = [(signed(*shape) * 4, signed(*shape, seed=1)) for shape in (SOLID, FLAT)]
    return [
        ("Glu", [Call({"X": signed(2, 4, 6)}, ["Y"], {"dim": 1}), Call({"X": signed(5, 8)}, ["Y"], {})]),
        ("Mish", [Call({"X": x}, ["Y"], {}) for x, _ in pairs]),
        ("MishGradient", [Call({"X": x, "Y": x, "dY": y}, ["dX"], {}) for x, y in pairs]),
    ]


def ranked() -> list[tuple[str, list[Call]]]:
    """Percentiles, and the largest of each row."""
    values = np.array([10, 20, 40, 1, 3], "f")
    table = np.stack([values, np.array([0.1, 0.5, 0.9, 0.2, 0.8], "f")], axis=1)
    given = np.array([[15, 2], [10, 1], [40, 3], [5, 0], [50, 9], [20, 1.5]], "f")
    args: dict[str, Any] = {
        "percentile_raw": values.tolist(),
        "percentile_mapping": [0.1, 0.5, 0.9, 0.2, 0.8],
        "percentile_lower": [0.0, 0.4, 0.85, 0.1, 0.7],
        "percentile_upper": [0.15, 0.6, 1.0, 0.3, 0.9],
    }
    counts = [np.array([[1, 5, 2], [3, 1, 4]]), np.array([7, 1, 3, 2])]
    rows = [(signed(*SOLID), counts[0]), (signed(*FLAT), counts[1])]
    back: list[Call] = []
    for x, k in rows:
        places: Any = np.concatenate([np.arange(int(n))[::-1] for n in k.ravel()])
        back.append(Call({"X": x, "K": k, "dV": signed(len(places)), "P": places}, ["dX"], {}))
    return [
        (
            "Percentile",
            [
                Call({"X": given, "samples": table, "L": np.array([3, 2], "i")}, ["Y"], {}),
                Call({"X": given[:, :1].copy(), "samples": table[:3], "L": np.array([3], "i")}, ["Y"], {}),
            ],
        ),
        (
            "BisectPercentile",
            [
                Call({"X": given}, ["Y"], {**args, "lengths": [3, 2]}),
                Call({"X": given[:, :1].copy()}, ["Y"], {**{k: v[:3] for k, v in args.items()}, "lengths": [3]}),
            ],
        ),
        ("FlexibleTopK", [Call({"X": x, "K": k}, ["V", "P"], {}) for x, k in rows]),
        ("FlexibleTopKGradient", back),
    ]


def counted() -> list[tuple[str, list[Call]]]:
    """Quantiles, histograms, sums over images."""
    pairs = [(signed(*shape), signed(*shape, seed=1)) for shape in (SOLID, FLAT)]
    binned: list[dict[str, Any]] = [
        {"num_bins": 4},
        {"num_bins": 3, "bin_spacing": "logarithmic", "logspace_start": 0.125},
    ]
    return [
        ("Quantile", [Call({"X": x, "Y": y}, ["q"], {"quantile": 0.3, "abs": i}) for i, (x, y) in enumerate(pairs)]),
        ("SelfBinningHistogram", [Call({"X": a, "Y": b}, ["edges", "n"], binned[i]) for i, (a, b) in enumerate(pairs)]),
        (
            "AccumulateHistogram",
            [
                Call({"X": a}, ["now", "all"], {"lower_bound": -0.5, "upper_bound": 1.0, "num_buckets": n})
                for n, (a, _) in enumerate(pairs, 2)
            ],
        ),
        ("IntegralImage", [Call({"X": signed(*IMAGE)}, ["Y"], {}), Call({"X": signed(1, 2, 6, 3)}, ["Y"], {})]),
        (
            "IntegralImageGradient",
            [
                Call({"X": signed(*IMAGE), "dY": signed(2, 3, 5, 6)}, ["dX"], {}),
                Call({"X": signed(1, 2, 6, 3), "dY": signed(1, 2, 7, 4)}, ["dX"], {}),
            ],
        ),
    ]


def decoded() -> list[tuple[str, list[Call]]]:
    """Numbers from codes, and sums that are rectified."""
    book, whole = signed(3, 4), np.arange(30, dtype=np.int32).reshape(SOLID) - 14
    codes: Any = [np.arange(30).reshape(SOLID) * 7 % 12, np.arange(28).reshape(FLAT) * 5 % 12]
    small, wide = codes[0].astype(np.uint8), codes[1].astype(np.uint16)
    slopes = {"dY": signed(*SOLID), "dZ": signed(*FLAT)}
    pairs = [(signed(*shape), signed(*shape, seed=1)) for shape in (SOLID, FLAT)]
    return [
        (
            "QuantDecode",
            [
                Call({"book": book, "C": small, "D": wide}, ["Y", "Z"], {}),
                Call({"book": book, "C": codes[1].astype(np.int32)}, ["Y"], {}),
            ],
        ),
        (
            "QuantDecodeGradient",
            [
                Call({"book": book, "C": small, "D": wide, **slopes}, ["dbook"], {}),
                Call({"book": book, "C": codes[1].astype(np.int32), "dZ": slopes["dZ"]}, ["dbook"], {}),
            ],
        ),
        (
            "ByteWeightDequant",
            [
                Call({"X": small * 9}, ["Y"], {"shape": [5, 6], "min": -0.5, "max": 1.25}),
                Call({"X": small.ravel()}, ["Y"], {"shape": [2, 7]}),
            ],
        ),
        (
            "SumRelu",
            [*(Call({"A": x, "B": y}, ["Y"], {}) for x, y in pairs), Call({"A": whole, "B": whole}, ["A"], {})],
        ),
    ]
