"""Calls that `record_unlike` records: ids put into dense tensors, segments picked, padded, divided and cut, hashes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import Call, labels, signed
from tools.unlike_extents import AGAIN, FLAT, SOLID, TWO

LENGTHS = labels(2, 0, 3, 1)
COLUMNS, COUNTS = np.array([3, 0, 1, 4, 2, 4]), np.array([2, 0, 3, 1])
IDS, MASK = np.array([7, 3, 9, 7, -1, 7]), {"mask": [7, 11, 3]}
WHOLE = np.array([5, -1, 4, 3, 2, -7])


def dense() -> list[tuple[str, list[Call]]]:
    """Rows and values by ids as dense tensors, and back."""
    found = {"I": IDS, "dY": signed(4, 3, 2, 5), "L": LENGTHS}
    listed: dict[str, Any] = {"L": COUNTS, "I": COLUMNS}
    vectors = [np.round(2 * signed(*shape)) for shape in (FLAT, (3, 2))]
    return [
        (
            "SparseToDense",
            [
                Call({"I": AGAIN, "X": signed(3, 2, 5)}, ["Y"], {}),
                Call({"I": TWO, "X": signed(2, 7), "like": np.arange(12).reshape(6, 2)}, ["Y"], {}),
            ],
        ),
        ("EnsureDense", [Call({"X": signed(*SOLID)}, ["Y"], {}), Call({"X": signed(*FLAT)}, ["X"], {})]),
        (
            "SparseToDenseMask",
            [
                Call({"I": IDS, "X": signed(6, 2, 5), "D": signed(2, 5, seed=1), "L": LENGTHS}, ["Y"], MASK),
                Call(
                    {"I": IDS[:4].astype("i"), "X": signed(4, 3), "D": signed(3, seed=1)},
                    ["Y", "there"],
                    {**MASK, "return_presence_mask": True},
                ),
            ],
        ),
        (
            "SparseToDenseMaskGradient",
            [Call(found, ["dX"], MASK), Call({"I": IDS, "dY": signed(3, 2)}, ["dX"], MASK)],
        ),
        (
            "BatchSparseToDense",
            [
                Call({**listed, "V": signed(6)}, ["Y"], {"dense_last_dim": 7, "default_value": 0.5}),
                Call({**listed, "V": signed(6), "like": np.zeros((3, 5), "i")}, ["Y"], {}),
            ],
        ),
        ("BatchDenseToSparse", [Call({**listed, "X": signed(4, n)}, ["V"], {}) for n in (5, 9)]),
        ("DenseVectorToIdList", [Call({"X": x}, ["L", "I"], {}) for x in vectors]),
    ]


def padded() -> list[tuple[str, list[Call]]]:
    """Rows before and behind segments."""
    wide: dict[str, Any] = {"padding_width": 2, "end_padding_width": 1}
    whole = labels(4, 3, 5)
    return [
        (
            "AddPadding",
            [
                Call({"X": signed(6, 2, 3), "L": LENGTHS, "s": signed(2, 3), "e": signed(6)}, ["Y", "M"], wide),
                Call({"X": signed(6, 2), "L": LENGTHS, "s": signed(2)}, ["Y", "M"], {}),
                Call({"X": np.arange(15).reshape(5, 3)}, ["Y", "M"], {"padding_width": 2}),
            ],
        ),
        (
            "RemovePadding",
            [
                Call({"X": signed(12, 2, 3), "L": whole}, ["Y", "M"], wide),
                Call({"X": np.arange(21).reshape(7, 3)}, ["Y", "M"], {}),
            ],
        ),
        (
            "GatherPadding",
            [
                Call({"X": signed(12, 2, 3), "L": whole}, ["s", "e"], wide),
                Call({"X": signed(12, 5), "L": whole}, ["s"], {}),
            ],
        ),
        (
            "PadEmptySamples",
            [
                Call({"L": LENGTHS, "X": signed(6, 2, 3), "Z": np.arange(6)}, ["M", "Y", "W"], {}),
                Call({"L": LENGTHS}, ["M"], {}),
            ],
        ),
    ]


def ranged() -> list[tuple[str, list[Call]]]:
    """Elements and segments that ranges and indices pick."""
    ranges = labels([[0, 1], [2, 2], [7, 1]], [[4, 3], [5, 0], [0, 2]])
    fixed = labels([[0, 1], [2, 3]], [[4, 1], [3, 0]], [[6, 1], [1, 3]], [[2, 2], [5, 3]])
    keys = np.array([4, 9, 1, 7, 2, 8, 3, 5])
    return [
        (
            "GatherRanges",
            [Call({"X": x, "R": ranges.astype(t)}, ["Y", "L"], {}) for x, t in ((signed(8), "i"), (keys, "q"))],
        ),
        (
            "GatherRangesToDense",
            [
                Call({"X": signed(8), "R": fixed}, ["Y", "Z"], {"lengths": [1, 3]}),
                Call({"X": signed(8), "R": fixed, "K": keys}, ["Y", "Z"], {"lengths": [1, 3]}),
            ],
        ),
        (
            "LengthsGather",
            [
                Call({"X": signed(6, 2, 5), "L": LENGTHS, "I": labels(2, 0, 2, 1)}, ["Y"], {}),
                Call({"X": np.arange(18).reshape(6, 3), "L": LENGTHS, "I": np.array([3, 0])}, ["Y"], {}),
            ],
        ),
        (
            "LengthsPad",
            [
                Call({"X": signed(6, 2, 5), "L": LENGTHS}, ["Y"], {"target_length": 3, "padding_value": 0.25}),
                Call({"X": np.arange(18).reshape(6, 3), "L": LENGTHS}, ["Y"], {"target_length": 4}),
            ],
        ),
        (
            "LengthsTile",
            [Call({"X": x, "L": LENGTHS}, ["Y"], {}) for x in (signed(4, 2, 5), np.arange(12).reshape(4, 3))],
        ),
        (
            "ReversePackedSegs",
            [
                Call({"X": signed(5, 3, 2), "L": labels(2, 5, 0)}, ["Y"], {}),
                Call({"X": np.arange(42).reshape(3, 2, 7), "L": np.array([3, 1])}, ["Y"], {}),
            ],
        ),
        (
            "RemoveDataBlocks",
            [Call({"X": signed(*shape), "I": rows}, ["Y"], {}) for shape, rows in (((3, 2, 5), AGAIN), (FLAT, TWO))],
        ),
    ]


def divided() -> list[tuple[str, list[Call]]]:
    """Rows among shards, lengths that are split, the largest elements of segments."""
    names, pack = ["a", "b", "c", "d", "e", "f"], {"pack_first_input": 1}
    x = signed(6, 2, 5)
    top = np.array([3, 1, 2, 5, 4, 5], "f")
    places = labels([0, 1], [-1, -1], [1, 2], [0, -1])
    return [
        (
            "Partition",
            [
                Call({"I": WHOLE, "X": x}, names, pack),
                Call({"I": WHOLE.reshape(3, 2).astype("i"), "X": signed(3, 2, 7)}, names[:4], {}),
            ],
        ),
        (
            "LengthsPartition",
            [
                Call({"L": LENGTHS, "I": WHOLE, "X": x}, names, pack),
                Call({"L": LENGTHS, "I": WHOLE.astype("i")}, names, {}),
            ],
        ),
        (
            "LengthsSplit",
            [Call({"L": labels(5, 0, 7, 3), "n": labels(3)}, ["Y"], {}), Call({"L": LENGTHS}, ["Y"], {"n_split": 2})],
        ),
        ("LengthsToShape", [Call({"L": labels(*[n] * count)}, ["Y"], {}) for n, count in ((7, 3), (0, 5))]),
        ("LengthsTopK", [Call({"X": y, "L": LENGTHS}, ["V", "P"], {"k": k}) for y, k in ((top, 2), (signed(6), 3))]),
        (
            "LengthsTopKGradient",
            [Call({"L": LENGTHS, "P": places, "dV": signed(4, 2)}, ["dX"], {"k": 2})],
        ),
    ]


def hashed() -> list[tuple[str, list[Call]]]:
    """Hashes, rows of 16 bits, sums by places, tensors in one, sequences that have ended, segments that are dropped."""
    wild = np.array([[0, 1, -1], [5, 2**40, -(2**63)]])
    rows = [signed(*shape).astype("e") for shape in ((4, 3, 5), (6, 7))]
    table = signed(5, 2, 3)
    picked = {"W": signed(4), "I": np.array([4, 0, 1, 1, 3, 2]), "L": LENGTHS}
    ids = {"X": np.arange(12), "L": labels(2, 0, 3, 1, 4, 0, 2)}
    return [
        (
            "IndexHash",
            [
                Call({"X": wild}, ["Y"], {"modulo": 1000, "seed": -3}),
                Call({"X": wild.astype("i").reshape(3, 2)}, ["X"], {"modulo": 97, "seed": 5}),
            ],
        ),
        (
            "Float16SparseNormalize",
            [
                Call({"W": rows[0], "I": AGAIN}, ["W"], {"norm": 0.5}),
                Call({"W": rows[1], "I": np.array([5, 0]), "g": signed(2, 7)}, ["W"], {"use_max_norm": 0, "norm": 3.0}),
            ],
        ),
        (
            "SparseLengthsPositionalWeightedSum",
            [Call({"X": x, **picked}, ["Y"], {}) for x in (table, signed(5, 7).astype("e"))],
        ),
        (
            "UnsafeCoalesce",
            [
                Call({"X": signed(*SOLID), "Z": signed(*FLAT)}, ["X", "Z", "all"], {}),
                Call({"X": signed(*FLAT)}, ["Y", "all"], {}),
            ],
        ),
        (
            "VariableLengthSequencePadding",
            [
                Call({"X": signed(5, 3, 2), "L": labels(2, 5, 0)}, ["X"], {}),
                Call({"X": signed(3, 2, 7), "L": labels([3, 1])}, ["X"], {}),
            ],
        ),
        (
            "SparseDropoutWithReplacement",
            [
                Call(ids, ["Y", "M"], {"ratio": 0.4, "replacement_value": -1}, 7),
                Call(ids, ["Y", "M"], {"ratio": 0.75}, 11),
            ],
        ),
    ]
