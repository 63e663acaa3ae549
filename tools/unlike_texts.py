"""Calls that `record_unlike` records: texts, categories, and what is handed on."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import Call, signed
from tools.unlike_extents import FLAT, SOLID

TEXTS = np.array([[b"rain", b"", b"in\xff"], [b"brain", b"b", b"in\x01x"]], object)


def texts() -> list[tuple[str, list[Call]]]:
    """Parts of texts, what they begin and end with, and rows as texts."""
    apart: Any = signed(*FLAT)
    apart = apart + np.sign(apart)  # as bytes none of them is zero, which ends a text in what is stored
    asked = {"StringStartsWith": "prefix", "StringEndsWith": "suffix", "StringEquals": "text"}
    return [
        *(
            (name, [Call({"X": TEXTS}, ["Y"], {"length": n}) for n in (2, 4)])
            for name in ("StringPrefix", "StringSuffix")
        ),
        *((name, [Call({"X": TEXTS}, ["Y"], {key: word}) for word in ("in", "b")]) for name, key in asked.items()),
        (
            "StringJoin",
            [Call({"X": apart}, ["Y"], {"axis": 1}), Call({"X": apart[:, 2:]}, ["Y"], {"delimiter": "; "})],
        ),
    ]


def categories() -> list[tuple[str, list[Call]]]:
    """Combinations of categories; tensors that are handed on together."""
    columns = {"col_ids": [2, 0], "categorical_limits": [3, 2], "vals": [1, 0, -1, 2, 1]}
    x: Any = signed(5, 3)
    x = (x * 2).round()
    return [
        (
            "NGramFromCategorical",
            [Call({"X": x}, ["Y"], columns), Call({"X": x[:3, :, None].repeat(2, 2)}, ["Y"], columns)],
        ),
        (
            "DataCouple",
            [Call({"X": signed(*SOLID), "Y": TEXTS}, ["X", "Y"], {}), Call({"X": signed(*FLAT)}, ["X"], {})],
        ),
    ]
