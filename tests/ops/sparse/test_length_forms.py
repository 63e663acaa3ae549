"""Lengths and ids said in other ways: one segment after the other; and back again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
LENGTHS = np.array([2, 0, 3, 1], np.int32)
STARTS = [0, 2, 2, 5]
NONE = np.zeros(0, np.int32)
IDS = np.array([0, 0, 2, 2, 2, 3])
RANGES = np.array([[0, 2], [2, 0], [2, 3], [5, 1]], np.int32)


def weights(power: float) -> Array:
    """Return a weight for each row."""
    return np.array([n**-power for n in LENGTHS.tolist() for _ in range(n)], np.float32)


def whole(*numbers: Any) -> Array:
    """Return int32 numbers."""
    return np.array(numbers, np.int32)


CASES = [
    Case("LengthsToRanges", [LENGTHS], RANGES),
    Case("LengthsToRanges", [NONE], RANGES[:0], id="none"),
    Case("LengthsToOffsets", [LENGTHS], whole(*STARTS)),
    Case("LengthsToOffsets", [LENGTHS], whole(*STARTS, 6), {"include_last_offset": 1}, id="where the last one ends"),
    Case("LengthsToOffsets", [NONE], whole(0), {"include_last_offset": 1}, id="none, with the end"),
    Case("LengthsToSegmentIds", [LENGTHS], IDS.astype(np.int32)),
    Case("LengthsToSegmentIds", [NONE], NONE, id="none"),
    Case("LengthsRangeFill", [LENGTHS], whole(0, 1, 0, 1, 2, 0)),
    Case("LengthsRangeFill", [0 * LENGTHS], NONE, id="empty segments"),
    Case("LengthsToWeights", [LENGTHS], weights(0.5)),
    Case("LengthsToWeights", [LENGTHS.astype(np.int64)], weights(-1.0), {"power": -1.0}, id="another power"),
    Case("SegmentIdsToLengths", [IDS], LENGTHS),
    Case("SegmentIdsToLengths", [IDS.reshape(2, 3), np.ones((5, 2))], whole(*LENGTHS, 0), id="as many as like has"),
    Case("SegmentIdsToLengths", [NONE], NONE, id="none"),
    Case("SegmentIdsToRanges", [IDS.astype(np.int32)], whole([0, 2], [2, 0], [2, 3], [5, 1])),
    Case("SegmentIdsToRanges", [IDS, np.ones(6)], whole(*RANGES, [0, 0], [0, 0]), id="as many as like has"),
    Case("SegmentIdsToRanges", [NONE, np.ones(2)], whole([0, 0], [0, 0]), id="none, like has some"),
]


@on_all_engines(CASES)
def test_said_in_other_ways(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("seed", range(8))
def test_there_and_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = np.append(rng.integers(0, 4, rng.integers(0, 9)), 1).astype(np.int32)  # ids name no empty last segment
    ids = run_op("LengthsToSegmentIds", lengths)
    np.testing.assert_array_equal(run_op("SegmentIdsToLengths", ids), lengths)
    np.testing.assert_array_equal(run_op("SegmentIdsToRanges", ids), run_op("LengthsToRanges", lengths))
    places = run_op("LengthsRangeFill", lengths) + run_op("LengthsToOffsets", lengths)[ids]
    assert places.tolist() == list(range(lengths.sum()))


REFUSED: list[tuple[str, list[Any], type[TazzaError], str]] = [
    ("LengthsToSegmentIds", [whole(1, -1)], NumericError, r"LENGTHS\[1\] is -1"),
    ("LengthsRangeFill", [whole(-2)], NumericError, r"LENGTHS\[0\] is -2"),
    ("LengthsToWeights", [whole(1, -1)], NumericError, r"LENGTHS\[1\] is -1"),
    ("SegmentIdsToLengths", [whole(0, 2, 1)], NumericError, r"ids\[2\] is 1, behind 2"),
    ("SegmentIdsToRanges", [whole(-1, 0)], NumericError, r"ids\[0\] is -1"),
    ("SegmentIdsToLengths", [IDS, np.ones(3)], ShapeError, "like has 3 rows, the ids name 4"),
    ("LengthsToRanges", [LENGTHS.reshape(2, 2)], ShapeError, "rank"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
