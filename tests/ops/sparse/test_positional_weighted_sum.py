"""SparseLengthsPositionalWeightedSum: by a loop in float64; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

DATA = np.random.default_rng(1).standard_normal((7, 2, 3)).astype(np.float32)
WEIGHTS = np.array([0.5, -2, 3, 4], np.float32)
INDICES = np.array([6, 0, 1, 1, 3, 2])
LENGTHS = np.array([2, 0, 3, 1], np.int32)


def by_hand(data: Array, weights: Array, indices: Array, lengths: Array) -> Array:
    """Add row after row."""
    found, left = np.zeros((len(lengths), *data.shape[1:])), indices.tolist()
    for m, count in enumerate(lengths):
        for p in range(count):
            found[m] += float(weights[p]) * data[left.pop(0)].astype(np.float64)
    return found.astype(np.float32)


TYPE = "SparseLengthsPositionalWeightedSum"
CASES = [
    Case(TYPE, [DATA, WEIGHTS, INDICES, LENGTHS], by_hand),
    Case(TYPE, [DATA.astype(np.float16), WEIGHTS[:3], INDICES.astype(np.int32), LENGTHS], by_hand, id="half"),
    Case(TYPE, [DATA[:, 0, 0], WEIGHTS, INDICES[:0], 0 * LENGTHS], np.zeros(4, np.float32), id="empty segments"),
    Case("SparseLengthsPositionalWeightedSum", [DATA[:, 0], WEIGHTS, INDICES, LENGTHS], by_hand, id="rows"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Any], type[TazzaError], str]] = [
    ([DATA, WEIGHTS[:2], INDICES, LENGTHS], NumericError, r"LENGTHS\[2\] is 3, not in \[0, 3\)"),
    ([DATA, WEIGHTS, INDICES + 1, LENGTHS], NumericError, r"INDICES\[0\] is 7, not in \[0, 7\)"),
    ([DATA, WEIGHTS, INDICES, LENGTHS[:3]], NumericError, "the 3 LENGTHS add up to 5, and there are 6 INDICES"),
    ([DATA, WEIGHTS[:, None], INDICES, LENGTHS], ShapeError, "WEIGHTS"),
    ([DATA.astype(np.float64), WEIGHTS, INDICES, LENGTHS], DTypeError, "DATA is float64"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs)
