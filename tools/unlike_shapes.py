"""Calls that `record_unlike` records: marked places, masks, elements that are put or found, blocks of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import Call, signed
from tools.unlike_extents import AGAIN, FLAT, SOLID, TWO


def marked() -> list[tuple[str, list[Call]]]:
    """Numbers as rows in which their place is marked."""
    lengths, whole = np.array([2, 0, 3], "i"), np.arange(12, dtype="i").reshape(4, 3) % 5
    bounds = np.array([-0.5, 0.5, 0.0, -1.0, 0.25, 0.25], "f")
    size = np.array([7])
    return [
        ("OneHot", [Call({"X": np.array(x), "size": size}, ["Y"], {}) for x in ([3, 0, 6, 0], [5, 1])]),
        (
            "SegmentOneHot",
            [
                Call({"L": lengths, "X": np.array([3, 0, 3, 3, 6]), "size": size}, ["Y"], {}),
                Call({"L": lengths[:2], "X": np.array([5, 1, 4]), "size": np.array(7)}, ["Y"], {}),
            ],
        ),
        (
            "BatchOneHot",
            [
                Call({"X": whole, "L": lengths, "values": np.array([0, 3, 2, 0, 1], "i")}, ["Y"], {}),
                Call({"X": whole[:2].astype("q"), "L": lengths, "values": np.arange(5)}, ["Y"], {}),
            ],
        ),
        (
            "BatchBucketOneHot",
            [
                Call({"X": signed(5, 3), "L": np.array([2, 1, 3], "i"), "boundaries": bounds}, ["Y"], {}),
                Call({"X": signed(4, 2), "L": np.array([2, 4], "i"), "boundaries": bounds}, ["Y"], {}),
            ],
        ),
    ]


def masked() -> list[tuple[str, list[Call]]]:
    """Rows that a mask picks, and back."""
    masks = [np.array([True, False]), np.array([False, True, True, False])]
    lists = [signed(4), signed(3)]
    other = np.array([False, True, False, True, True, False, True])
    pairs = [(masks[0], SOLID), (masks[1], FLAT)]
    return [
        ("BooleanMask", [Call({"X": signed(*shape), "mask": mask}, ["Y", "places"], {}) for mask, shape in pairs]),
        ("BooleanMaskGradient", [Call({"mask": mask, "dY": signed(int(mask.sum()))}, ["dX"], {}) for mask in masks]),
        ("BooleanMaskLengths", [Call({"L": np.array(n, "i"), "mask": other}, ["Y"], {}) for n in ([3, 0, 4], [2, 5])]),
        (
            "BooleanUnmask",
            [
                Call({"a": other, "A": lists[0], "b": ~other, "B": lists[1]}, ["Y"], {}),
                Call({"a": other[:4], "A": lists[0][:2], "b": np.ones(4, bool), "B": lists[1][:2]}, ["Y"], {}),
            ],
        ),
    ]


def looked_up() -> list[tuple[str, list[Call]]]:
    """Elements that are found or counted, tensors that are repeated, cut or made flat."""
    whole = np.arange(15, dtype="i").reshape(3, 5) % 6
    few: Any = np.array([3, 5, 3, 3], "i")
    return [
        (
            "NumpyTile",
            [
                Call({"X": signed(*shape), "n": np.array(n)}, ["Y"], {})
                for shape, n in ((SOLID, [2, 1, 3]), (FLAT, [1, 2]))
            ],
        ),
        (
            "Find",
            [
                Call({"X": whole, "query": few}, ["Y"], {}),
                Call({"X": few, "query": whole}, ["Y"], {"missing_value": 9}),
            ],
        ),
        ("FindDuplicateElements", [Call({"X": few}, ["Y"], {}), Call({"X": signed(4)[[0, 2, 2, 0, 1]]}, ["Y"], {})]),
        ("HasElements", [Call({"X": signed(*SOLID)[:, :0], "Z": z}, ["Y"], {}) for z in (whole, whole[:0])]),
        ("Size", [Call({"X": x}, ["Y"], {}) for x in (signed(*SOLID), whole)]),
        ("PrependDim", [Call({"X": signed(6, 5)}, ["Y"], {"dim_size": 2}), Call({"X": whole}, ["Y"], {"dim_size": 1})]),
        ("MergeDim", [Call({"X": signed(*shape)}, ["Y"], {}) for shape in (SOLID, FLAT)]),
        (
            "SplitByLengths",
            [
                Call({"X": signed(2, 6), "L": np.array([1, 0, 2, 3], "i")}, ["Y", "Z"], {"axis": -1}),
                Call(
                    {"X": signed(6, 5), "L": np.array([1, 2], "i")}, ["Y", "Z"], {"use_scaling_lengths": 1, "axis": 0}
                ),
            ],
        ),
    ]


def put() -> list[tuple[str, list[Call]]]:
    """Elements that are made in a row, or put somewhere."""
    few, at = np.array([3, 5], "i"), np.array([[2, 0, 2]])
    return [
        (
            "Range",
            [
                Call({"start": few[:1], "stop": np.array(17, "i"), "step": few[1:2]}, ["Y"], {}),
                Call(
                    {"start": np.array(1.5, "f"), "stop": np.array(-1.0, "f"), "step": np.array([-0.4], "f")}, ["Y"], {}
                ),
            ],
        ),
        (
            "Scatter",
            [
                Call({"X": signed(*SOLID), "at": at[:, :, None] * [[[1, 0]]], "U": signed(1, 3, 2, seed=1)}, ["Y"], {}),
                Call({"X": signed(*FLAT), "at": at.astype("i"), "U": signed(1, 3, seed=1)}, ["Y"], {"axis": -2}),
            ],
        ),
        (
            "ScatterAssign",
            [
                Call({"X": signed(*shape), "at": rows, "U": signed(len(rows), *shape[1:], seed=1)}, ["X"], {})
                for shape, rows in ((SOLID, AGAIN), (FLAT, TWO))
            ],
        ),
    ]


def moved() -> list[tuple[str, list[Call]]]:
    """Rows in another order, blocks of images, volumes in another size."""
    orders = [(signed(*SOLID), np.array([1, 0], "i")), (signed(*FLAT), np.array([2, 0, 3, 1], "i"))]
    blocks: list[dict[str, Any]] = [{"block_size": 2, "pad": 1}, {"block_size": 3}]
    volume, double = signed(1, 2, 3, 4, 5), {"height_scale": 2.0, "width_scale": 2.0}
    return [
        ("BatchPermutation", [Call({"X": x, "at": at}, ["Y"], {}) for x, at in orders]),
        ("BatchPermutationGradient", [Call({"at": at, "dY": x}, ["dX"], {}) for x, at in orders]),
        (
            "SpaceToBatch",
            [Call({"X": signed(2, 5, 6, 12)}, ["Y"], blocks[0]), Call({"X": signed(2, 5, 6, 9)}, ["Y"], blocks[1])],
        ),
        (
            "BatchToSpace",
            [Call({"X": signed(8, 5, 3, 6)}, ["Y"], blocks[0]), Call({"X": signed(18, 5, 2, 3)}, ["Y"], blocks[1])],
        ),
        ("ResizeNearest3D", [Call({"X": volume}, ["Y"], {**double, "temporal_scale": s}) for s in (1.0, 2.0)]),
        (
            "ResizeNearest3DGradient",
            [
                Call({"dY": signed(1, 2, 6, 8, 10), "X": volume}, ["dX"], {**double, "temporal_scale": 2.0}),
                Call({"dY": signed(1, 2, 4, 3, 5), "X": volume}, ["dX"], {"temporal_scale": 1.5, "height_scale": 0.75}),
            ],
        ),
    ]
