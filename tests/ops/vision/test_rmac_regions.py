"""RMACRegions: written out, and by fractions; what must hold of all."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def images(*shape: int) -> Array:
    """Return images of which nothing is read."""
    return np.full(shape, np.nan, np.float32)


def by_hand(X: Array, scales: int = 3, overlap: str = "0.4") -> Array:
    """Return all rows, by exact arithmetic."""
    N, C, H, W = X.shape[:4]
    small = min(H, W)
    found: list[list[int]] = []
    more = {extent: 0 for extent in (H, W)}
    for extent in (H, W):
        if extent > small:
            shared = {m: 1 - Fraction(extent - small, m * small) for m in range(1, 7)}
            more[extent] = min(shared, key=lambda m: (abs(shared[m] - Fraction(overlap)), m))
    for n in range(N if C else 0):
        for l in range(1, scales + 1):  # noqa: E741 -- the letter of the paper
            side = 2 * small // (l + 1)
            starts = [
                [int(Fraction(extent - side, max(1, l + more[extent] - 1)) * i) for i in range(l + more[extent])]
                for extent in (W, H)
            ]
            if side > 0:
                found += [[n, x, y, x + side - 1, y + side - 1] for x in starts[0] for y in starts[1]]
    return np.array(found, np.float32).reshape(-1, 5)


WRITTEN = [[0, 0, 0, 3, 3], [0, 2, 0, 5, 3], [0, 0, 0, 1, 1], [0, 0, 2, 1, 3], [0, 2, 0, 3, 1], [0, 2, 2, 3, 3],
           [0, 4, 0, 5, 1], [0, 4, 2, 5, 3]]  # fmt: skip
TYPE = "RMACRegions"
CASES = [
    Case(TYPE, [images(1, 3, 4, 6)], np.array(WRITTEN, "f"), {"scales": 2}, id="written out"),
    Case(TYPE, [images(2, 3, 5, 7)], by_hand(images(2, 3, 5, 7))),
    Case(TYPE, [images(1, 2, 9, 9)], by_hand(images(1, 2, 9, 9)), id="square"),
    Case(TYPE, [images(3, 1, 20, 7)], by_hand(images(3, 1, 20, 7), 2), {"scales": 2}, id="high"),
    Case(TYPE, [images(1, 2, 9, 14)], by_hand(images(1, 2, 9, 14), 4, "0.85"), {"scales": 4, "overlap": 0.85}),
    Case(TYPE, [images(2, 2, 3, 1)], by_hand(images(2, 2, 3, 1)), id="smaller than regions"),
    Case(TYPE, [images(2, 3, 5, 7, 2)], by_hand(images(2, 3, 5, 7)), id="further extents"),
    Case(TYPE, [np.zeros((1, 2, 5, 7), np.int64)], by_hand(images(1, 2, 5, 7)), id="any type"),
    *(
        Case(TYPE, [images(1, 2, 5, 7)], np.zeros((0, 5)), {"scales": scales}, id=f"{scales} scales")
        for scales in (0, -1)
    ),
    *(Case(TYPE, [images(*s)], np.zeros((0, 5)), id=f"{s}") for s in ((0, 3, 5, 7), (2, 0, 5, 7), (1, 2, 0, 7))),
]


@on_all_engines(CASES)
def test_by_fractions(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("extents", [(5, 7), (30, 11), (8, 8), (6, 40)])
def test_regions_are_squares_that_reach_from_end_to_end(extents: tuple[int, int]) -> None:
    H, W = extents
    regions = run_op(TYPE, images(1, 1, H, W), scales=4)[:, 1:].astype(int)
    wide, high = (regions[:, i + 2] - regions[:, i] + 1 for i in (0, 1))
    assert (wide == high).all()
    for side in set(wide.tolist()):
        own = regions[wide == side]
        if side < min(H, W):
            assert (own.min(0)[:2].tolist(), own.max(0)[2:].tolist()) == ([0, 0], [W - 1, H - 1])


def test_refused() -> None:
    with pytest.raises(ShapeError, match="X has rank 3"):
        run_op(TYPE, images(3, 5, 7))
