"""PackRNNSequence and UnpackRNNSequence: against one row after the other; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

ROWS = np.arange(1, 25, dtype=np.float32).reshape(6, 2, 2)
LENGTHS = np.array([1, 0, 3, 2], np.int32)


def side_by_side(rows: Array, lengths: Array) -> Array:
    """Return steps (T, N, *S)."""
    steps = np.zeros((max(lengths, default=0), len(lengths), *rows.shape[1:]), rows.dtype)
    places = [(t, n) for n, length in enumerate(lengths) for t in range(length)]
    for row, place in zip(rows, places, strict=False):
        steps[place] = row
    return steps


STEPS = side_by_side(ROWS, LENGTHS)
CASES = [
    Case("PackRNNSequence", [ROWS, LENGTHS], side_by_side),
    Case("PackRNNSequence", [ROWS.astype(np.int64)[:, 0], LENGTHS], side_by_side, gradient=False, id="whole numbers"),
    Case("PackRNNSequence", [ROWS, LENGTHS[:2]], side_by_side, id="rows left out"),
    Case("PackRNNSequence", [ROWS[:0], 0 * LENGTHS], np.zeros((0, 4, 2, 2)), id="empty sequences"),
    Case("PackRNNSequence", [ROWS[:0], LENGTHS[:0]], np.zeros((0, 0, 2, 2)), id="no sequences"),
    Case("UnpackRNNSequence", [STEPS, LENGTHS], ROWS),
    Case("UnpackRNNSequence", [STEPS + 1, LENGTHS // 2], (STEPS + 1)[0, [2, 3]], id="shorter"),
]


@on_all_engines(CASES)
def test_packed_sequence(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("PackRNNSequence", [ROWS, 2 * LENGTHS], NumericError, "the lengths add up to 12, and there are 6 rows"),
    ("PackRNNSequence", [ROWS, LENGTHS - 1], NumericError, r"\[1\] is -1, it must be at least 0"),
    ("PackRNNSequence", [ROWS[:, 0, 0], LENGTHS], ShapeError, "rows have rank 1"),
    ("PackRNNSequence", [ROWS, LENGTHS.astype(np.int64)], DTypeError, "lengths is int64"),
    ("UnpackRNNSequence", [STEPS, LENGTHS + 1], NumericError, r"lengths\[2\] is 4, not in \[0, 4\)"),
    ("UnpackRNNSequence", [STEPS, LENGTHS - 1], NumericError, r"\[1\] is -1, it must be at least 0"),
    ("UnpackRNNSequence", [STEPS, LENGTHS[:3]], ShapeError, r"N is \(3\) in lengths and \(4\) in steps"),
    ("UnpackRNNSequence", [ROWS[:, :, 0], LENGTHS[:2]], ShapeError, "steps have rank 2"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
