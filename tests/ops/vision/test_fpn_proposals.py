"""Proposals of a feature pyramid: sorted and measured one by one; a law; what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

BOTH = "CollectAndDistributeFpnRpnProposals"
_RNG = np.random.default_rng(6)
_CENTER, _SIZE = _RNG.uniform(10, 800, (9, 2)), np.exp(_RNG.uniform(2, 7, (9, 2)))
ROIS = np.concatenate([_RNG.integers(0, 2, (9, 1)), _CENTER - _SIZE / 2, _CENTER + _SIZE / 2], 1).astype(np.float32)
PROBS = _RNG.permutation(9).astype(np.float32) / 9
APART = [ROIS[:5], ROIS[5:5], ROIS[5:], PROBS[:5], PROBS[5:5], PROBS[5:]]
TIED = [ROIS[:5], ROIS[5:5], ROIS[5:], np.full(5, 0.5, "f"), PROBS[5:5], np.array([0.75, 0.5, 0.25, 0.5], "f")]
THREE: dict[str, Any] = {"rpn_min_level": 3, "rpn_max_level": 5}


def collected(inputs: list[Array], most: int = 2000) -> Array:
    """Return the best rows; Python's sort leaves equal ones in their order."""
    half = len(inputs) // 2
    rows: list[tuple[float, list[float]]] = []
    for rois, probs in zip(inputs[:half], inputs[half:], strict=True):
        rows += zip(probs.ravel().tolist(), rois.tolist(), strict=True)
    rows.sort(key=lambda pair: -pair[0])
    return np.array([row for _, row in rows[: most if most > 0 else None]], np.float32).reshape(-1, 5)


def distributed(rois: Array, **args: Any) -> tuple[Array, ...]:
    """Return the rows of each level, and where each row went."""
    plus = args.get("legacy_plus_one", 1)
    first, last = int(args.get("roi_min_level", 2)), int(args.get("roi_max_level", 5))
    levels: list[list[int]] = [[] for _ in range(first, last + 1)]
    for r, (x1, y1, x2, y2) in enumerate(rois[:, -4:].astype(np.float64)):
        side = math.sqrt((x2 - x1 + plus) * (y2 - y1 + plus))
        octave = math.floor(math.log2(side / args.get("roi_canonical_scale", 224) + 1e-6))
        levels[min(max(int(args.get("roi_canonical_level", 4)) + octave, first), last) - first].append(r)
    order = [r for own in levels for r in own]
    whole = np.zeros((len(rois), 5), np.float32)
    whole[:, 5 - rois.shape[1] :] = rois
    return *(whole[own] for own in levels), np.array([order.index(r) for r in range(len(rois))])


def both(inputs: list[Array], most: int = 2000, **args: Any) -> tuple[Array, ...]:
    """Return what is collected, and how it is distributed."""
    best = collected(inputs, most)
    return best, *distributed(best, **args)


WAYS: list[dict[str, Any]] = [
    {},
    {"roi_min_level": 1, "roi_max_level": 7},
    {"roi_canonical_scale": 100, "roi_canonical_level": 3, "legacy_plus_one": 0},
    {"roi_min_level": 4, "roi_max_level": 4},
]


def count(args: dict[str, Any]) -> int:
    """Return how many levels there are."""
    return args.get("roi_max_level", 5) - args.get("roi_min_level", 2) + 1


CASES = [
    Case(
        "CollectRpnProposals",
        inputs,
        collected(inputs, most),
        {**THREE, "rpn_post_nms_topN": most},
        id=f"{tied}-{most}",
    )
    for tied, inputs in enumerate((APART, TIED))
    for most in (4, 0, -1, 99)
]
CASES.extend(
    [Case("DistributeFpnProposals", [ROIS], distributed(ROIS, **args), args, outputs=count(args) + 1) for args in WAYS]
)
CASES.extend([Case(BOTH, APART, both(APART, **args), {**THREE, **args}, outputs=count(args) + 2) for args in WAYS])
CASES.extend(
    [
        Case(BOTH, TIED, both(TIED, 5), {**THREE, "rpn_post_nms_topN": 5}, outputs=6, id="tied"),
        Case(
            "CollectRpnProposals", [ROIS, PROBS[:, None]], collected([ROIS, PROBS]), {"rpn_max_level": 2}, id="column"
        ),
        Case("DistributeFpnProposals", [ROIS[:, 1:]], distributed(ROIS[:, 1:]), outputs=5, id="without numbers"),
        Case("DistributeFpnProposals", [ROIS[:0]], distributed(ROIS[:0]), outputs=5, id="no box"),
        Case("CollectRpnProposals", [ROIS[:0], PROBS[:0]], ROIS[:0], {"rpn_max_level": 2}, id="no proposal"),
    ]
)


@on_all_engines(CASES)
def test_one_by_one(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_rows_come_back() -> None:
    """Rows of all levels, one level behind the other, taken at `restore`, are the boxes that were given."""
    *levels, restore = run_op("DistributeFpnProposals", ROIS, outputs=5)
    np.testing.assert_array_equal(np.concatenate(levels)[restore], ROIS)


@pytest.mark.parametrize("side", [112, 224, 448])
def test_a_box_of_the_canonical_size_belongs_to_the_level_above(side: int) -> None:
    boxes = np.array([[0, 0, 0, side - 2, side - 2], [0, 0, 0, side - 1, side - 1]], np.float32)
    levels = run_op("DistributeFpnProposals", boxes, outputs=8, roi_min_level=1, roi_max_level=7)[:-1]
    above = 4 + round(math.log2(side / 224))
    assert [len(level) for level in levels] == [int(number in (above - 1, above)) for number in range(1, 8)]


def test_a_box_without_end_belongs_to_the_last_level() -> None:
    endless = np.array([[0, 0, 0, np.inf, 3], [0, 0, 0, 1e30, 1e30]], np.float32)
    assert [len(level) for level in run_op("DistributeFpnProposals", endless, outputs=5)[:-1]] == [0, 0, 0, 2]


FLAT = np.array([[0, 5, 5, 9, 9], [0, 5, 5, 3, 9]], np.float32)
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("CollectRpnProposals", APART, {}, ArgumentError, "3 rois for the levels 2 to 6"),
    (
        "CollectRpnProposals",
        APART,
        {"rpn_min_level": 6, "rpn_max_level": 3},
        ArgumentError,
        "3 rois for the levels 6 to 3",
    ),
    ("CollectRpnProposals", APART[:-1], THREE, TazzaError, "3 rois|2 probs"),
    (
        "CollectRpnProposals",
        [ROIS, PROBS[:8]],
        {"rpn_max_level": 2},
        ShapeError,
        r"probs0 have the shape \(8\), .* 9 rois0",
    ),
    ("CollectRpnProposals", [ROIS[:, 1:], PROBS], {"rpn_max_level": 2}, ShapeError, r"rois0 .* they must be \(R, 5\)"),
    ("DistributeFpnProposals", [ROIS], {"outputs": 4}, ArgumentError, "3 levels for the levels 2 to 5"),
    ("DistributeFpnProposals", [ROIS[:, :3]], {"outputs": 5}, ShapeError, r"rois .* they must be \(R, 5\) or \(R, 4\)"),
    ("DistributeFpnProposals", [FLAT], {"outputs": 5}, NumericError, r"rois\[1\] is -1.0 by 5.0 pixels"),
    ("DistributeFpnProposals", [FLAT * np.float32("nan")], {"outputs": 5}, NumericError, r"rois\[0\] is nan by nan"),
    ("DistributeFpnProposals", [ROIS], {"outputs": 5, "roi_canonical_scale": 0}, ArgumentError, "roi_canonical_scale"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
