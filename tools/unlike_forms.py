"""Calls that `record_unlike` records: tensors that are repeated, lengths said otherwise, labels as probabilities."""

from __future__ import annotations

import numpy as np

from tools.record_golden import Call, signed
from tools.unlike_extents import FLAT, SOLID


def repeated() -> list[tuple[str, list[Call]]]:
    """Tensors that are repeated, or made longer."""
    tensors = [signed(*shape) for shape in (SOLID, FLAT)]
    tiles = {"tiles": np.array([3], "i")}
    return [
        (
            "Tile",
            [
                Call({"X": tensors[0], **tiles}, ["Y"], {"axis": 0}),
                Call({"X": tensors[1]}, ["Y"], {"tiles": 2, "axis": -1}),
            ],
        ),
        (
            "TileGradient",
            [
                Call({"dY": tensors[0], **tiles}, ["dX"], {"axis": 1}),
                Call({"dY": tensors[1]}, ["dX"], {"tiles": 2, "axis": 0}),
            ],
        ),
        (
            "Expand",
            [
                Call({"X": tensors[0], "shape": np.array([4, 1, 1, 1])}, ["Y"], {}),
                Call({"X": signed(4, 1, 7), "shape": np.array([1, 3, -1])}, ["Y"], {}),
            ],
        ),
        (
            "ExpandGradient",
            [
                Call({"dY": signed(4, 2, 3, 5), "X": tensors[0]}, ["dX"], {}),
                Call({"dY": signed(4, 3, 7), "X": signed(4, 1, 7)}, ["dX"], {}),
            ],
        ),
        (
            "DiagonalFill",
            [
                Call({}, ["Y"], {"shape": [4, 7], "value": 2.5}),
                Call({"X": signed(5, 3)}, ["Y"], {"value": 2, "dtype": 2}),
            ],
        ),
        ("MakeTwoClass", [Call({"X": x}, ["Y"], {}) for x in tensors]),
        ("MakeTwoClassGradient", [Call({"dY": signed(*shape, 2)}, ["dX"], {}) for shape in (SOLID, FLAT)]),
    ]


def said_otherwise() -> list[tuple[str, list[Call]]]:
    """Lengths and ids as other numbers."""
    lengths = [np.array([2, 0, 3, 1], "i"), np.array([1, 4], "i")]
    ids = [np.array([0, 0, 2, 3, 3, 3]), np.array([1, 1, 4], "i")]
    like = {"like": signed(6, 2)}
    found: list[tuple[str, list[Call]]] = []
    found += [
        (f"LengthsTo{what}", [Call({"L": one}, ["Y"], {}) for one in lengths]) for what in ("Ranges", "SegmentIds")
    ]
    found += [("LengthsRangeFill", [Call({"L": one}, ["Y"], {}) for one in lengths])]
    found += [
        ("LengthsToOffsets", [Call({"L": one}, ["Y"], {"include_last_offset": i}) for i, one in enumerate(lengths)])
    ]
    found += [("LengthsToWeights", [Call({"L": one}, ["Y"], {"power": 0.5 + i}) for i, one in enumerate(lengths)])]
    found += [
        (f"SegmentIdsTo{what}", [Call({"ids": ids[0]}, ["Y"], {}), Call({"ids": ids[1], **like}, ["Y"], {})])
        for what in ("Lengths", "Ranges")
    ]
    found += [
        (
            "Unique",
            [Call({"X": one}, ["Y", "place"], {}) for one in (np.array([4, -1, 4, 0, 9, 0]), np.array([7, 5, 7], "i"))],
        )
    ]
    return found


def labelled() -> list[tuple[str, list[Call]]]:
    """Labels that are probabilities."""
    found: list[tuple[str, list[Call]]] = []
    tensors = [signed(*shape) for shape in (SOLID, FLAT)]
    shares = [(0.1 + np.abs(signed(*shape)), np.abs(np.tanh(signed(*shape, seed=1)))) for shape in ((4, 7), (5, 3))]
    found += [("CrossEntropy", [Call({"X": x, "label": t}, ["Y"], {}) for x, t in shares])]
    found += [
        ("CrossEntropyGradient", [Call({"X": x, "label": t, "dY": signed(len(x))}, ["dX"], {}) for x, t in shares])
    ]
    for type, more, tricks in (
        ("SigmoidCrossEntropyWithLogits", {}, ["log_D_trick", "unjoined_lr_loss"]),
        ("WeightedSigmoidCrossEntropyWithLogits", {"W": 1}, []),
    ):
        inputs = [
            {"X": x, "T": np.abs(np.tanh(signed(*x.shape, seed=1))), **{n: signed(*x.shape, seed=2) for n in more}}
            for x in tensors
        ]
        back = [{"dY": signed(*given["X"].shape[:-1], seed=3), **given} for given in inputs]
        arguments = [{tricks[i]: 1} if tricks else {} for i in range(2)]
        found += [(type, [Call(given, ["Y"], arguments[i]) for i, given in enumerate(inputs)])]
        found += [(f"{type}Gradient", [Call(given, ["dX"], arguments[i]) for i, given in enumerate(back)])]
    return found
