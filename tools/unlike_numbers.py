"""Calls that `record_unlike` records: numbers one by one, in buckets, by pieces of lines; means."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import Call, signed
from tools.unlike_extents import FLAT, SOLID


def one_by_one() -> list[tuple[str, list[Call]]]:
    """Operators of one tensor, or of several of one shape."""
    pairs = [(signed(*shape), signed(*shape, seed=1)) for shape in (SOLID, FLAT)]
    whole = [np.arange(30, dtype="i").reshape(SOLID) - 9, np.arange(28).reshape(FLAT) * 7]
    holes = [np.where(x > 0.5, np.float32("nan"), x) for x, _ in pairs]
    some: Any = {"threshold": 0.25, "low_value": -1.5, "high_value": 2.0}
    return [
        ("Mean", [Call({"A": x, "B": y, "C": x * y}, ["Y"], {}) for x, y in pairs]),
        ("MeanGradient", [Call({"dY": x}, ["dA", "dB", "dC"], {}) for x, _ in pairs]),
        ("Mod", [Call({"X": x}, ["Y"], {"divisor": 5, "sign_follow_divisor": i}) for i, x in enumerate(whole)]),
        ("IsNaN", [Call({"X": x}, ["Y"], {}) for x in holes]),
        ("ReplaceNaN", [Call({"X": x}, ["Y"], {"value": 0.5}) for x in holes]),
        ("Cbrt", [Call({"X": x}, ["Y"], {}) for x, _ in pairs]),
        ("CbrtGradient", [Call({"dY": x, "Y": y}, ["dX"], {}) for x, y in pairs]),
        ("Logit", [Call({"X": np.abs(np.tanh(x))}, ["Y"], {"eps": 0.1}) for x, _ in pairs]),
        ("LogitGradient", [Call({"X": np.abs(np.tanh(x)), "dY": y}, ["dX"], {"eps": 0.1}) for x, y in pairs]),
        *(
            (f"Bitwise{name}", [Call({"A": x, "B": x[::-1].copy()}, ["C"], {}) for x in whole])
            for name in ("And", "Or", "Xor")
        ),
        ("SquareRootDivide", [Call({"X": x, "n": np.arange(len(x), dtype="i")}, ["Y"], {}) for x, _ in pairs]),
        ("StumpFunc", [Call({"X": x}, ["Y"], some) for x, _ in pairs]),
        ("StumpFuncIndex", [Call({"X": x}, ["low", "high"], {"threshold": 0.25}) for x, _ in pairs]),
        ("ScaleBlobs", [Call({"A": x, "B": y[0].copy()}, ["Y", "Z"], {"scale": 1.5}) for x, y in pairs]),
        ("SumInt", [Call({"A": x, "B": x * 3, "C": x + 1}, ["Y"], {}) for x in whole]),
        ("Bucketize", [Call({"X": x}, ["Y"], {"boundaries": [-0.5, 0.0, 0.75]}) for x, _ in pairs]),
    ]


def by_columns() -> list[tuple[str, list[Call]]]:
    """Operators that treat each column of a matrix in its own way."""
    bounds = np.array([-0.5, 0.25, 0.75, -1.0, 0.5], "f")
    at, lengths = np.array([3, 0], "i"), np.array([3, 2], "i")
    line: Any = {"bounds": [-0.5, 0.0, 1.0], "slopes": [2.0, -1.0], "intercepts": [0.5, 0.25]}
    lines = {"b": np.tile([-0.5, 0.0, 1.0], 7), "s": signed(14), "i": signed(14, seed=1)}
    return [
        (
            "BatchBoxCox",
            [
                Call({"X": np.abs(signed(*FLAT)), "a": signed(7).clip(0), "b": signed(7, seed=1)}, ["Y"], {}),
                Call({"X": np.abs(signed(*SOLID)), "a": signed(15) + 2, "b": signed(15, seed=1)}, ["Y"], {}),
            ],
        ),
        (
            "BatchBucketize",
            [Call({"X": signed(*shape), "at": at, "b": bounds, "L": lengths}, ["Y"], {}) for shape in (FLAT, (3, 5))],
        ),
        (
            "PiecewiseLinearTransform",
            [
                Call({"X": signed(*FLAT), **{name: one.astype("f") for name, one in lines.items()}}, ["Y"], {}),
                Call({"X": signed(5, 2)}, ["Y"], {**line, "binary": 1}),
            ],
        ),
    ]


def drawn() -> list[tuple[str, list[Call]]]:
    """Fills with numbers in a row, waves and halves; and what is drawn with a seed."""
    weights = [np.abs(signed(*shape)) for shape in (FLAT, (3, 5))]
    sums: Any = np.array([0.1, 0.3, 0.6, 1.0], "f")
    spread: dict[str, Any] = {"min": -1.5, "max": 2.5}
    some: dict[str, Any] = {"min": 3, "max": 40}
    shapes = [list(SOLID), list(FLAT)]
    places = [np.tile(np.array([[3], [1], [5]], "i"), 2), np.array([[7], [2]])]
    return [
        ("RangeFill", [Call({}, ["Y"], {"shape": shape}) for shape in shapes]),
        ("Float16ConstantFill", [Call({}, ["Y"], {"shape": shape, "value": 0.1}) for shape in shapes]),
        ("Float16UniformFill", [Call({}, ["Y"], {"shape": shape, **spread}, 7 + i) for i, shape in enumerate(shapes)]),
        (
            "UniqueUniformFill",
            [
                Call({}, ["Y"], {"shape": shapes[1], **some}, 9),
                Call({"X": signed(2, 5), "avoid": np.array([5, 9, 77])}, ["Y"], {**some, "dtype": 10}, 11),
            ],
        ),
        (
            "SinusoidPositionEncoding",
            [
                Call({"X": x}, ["Y"], {"embedding_size": 5, "alpha": 100.0 + i, "amplitude": 1.5})
                for i, x in enumerate(places)
            ],
        ),
        (
            "WeightedSample",
            [
                Call({"w": weights[0], "v": signed(*FLAT)}, ["at", "value"], {}, 5),
                Call({"w": weights[1]}, ["at"], {}, 6),
            ],
        ),
        (
            "WeightedMultiSampling",
            [
                Call({"w": sums, "like": signed(*FLAT)}, ["Y"], {}, 3),
                Call({"w": sums * 3}, ["Y"], {"num_samples": 9}, 4),
            ],
        ),
    ]
