"""Sequences that `record_sequences` records: indices of keys, data sets and their cursors, what is collected."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np


class Step(NamedTuple):
    """One step: operator type, its inputs and outputs by name, its arguments, and what is fed before."""

    type: str
    inputs: list[str]
    outputs: list[str]
    arguments: Mapping[str, Any] = MappingProxyType({})
    feeds: Mapping[str, Any] = MappingProxyType({})


def data_sequences() -> dict[str, list[Step]]:
    """Return all of them by name."""
    return {**indices()}


def indices() -> dict[str, list[Step]]:
    """Indices that learn, are full, frozen, loaded and stored."""
    found: dict[str, list[Step]] = {}
    for kind, keys in (
        ("Int", np.array([[4, -1, 4], [7, 9, 7]], np.int32)),
        ("Long", np.array([[2**40, -1, 3], [3, 5, 8]], np.int64)),
        ("String", np.array([[b"a", b"", b"a"], [b"ccc", b"d", b"e"]], object)),
    ):
        few, more = keys[0], keys[1]
        found[f"index_{kind.lower()}"] = [
            Step(f"{kind}IndexCreate", [], ["h"], {"max_elements": 3 + (kind == "Long")}),
            Step("IndexSize", ["h"], ["n"]),
            Step("IndexGet", ["h", "k"], ["i"], {}, {"k": few}),
            Step("IndexGet", ["h", "k"], ["i"], {}, {"k": keys}),
            Step("IndexSize", ["h"], ["n"]),
            Step("IndexStore", ["h"], ["s"]),
            Step("IndexFreeze", ["h"], ["h"]),
            Step("IndexGet", ["h", "k"], ["i"], {}, {"k": keys[::-1].copy()}),
            Step("IndexLoad", ["h", "s"], ["h"], {}, {"s": keys.ravel()[1:].copy() if kind == "Long" else more}),
            Step("IndexLoad", ["h", "s"], ["h"], {"skip_first_entry": 1}, {"s": np.unique(keys)}),
            Step("IndexSize", ["h"], ["n"]),
            Step("IndexGet", ["h", "k"], ["i"], {}, {"k": keys[:, :1].copy()}),
            Step("IndexStore", ["h"], ["s"]),
            Step("IndexLoad", ["h", "s"], ["h"], {}, {"s": few[:0]}),
            Step("IndexLoad", ["h", "s"], ["h"], {"skip_first_entry": 1}),
            Step("IndexStore", ["h"], ["s"]),
        ]
    return found
