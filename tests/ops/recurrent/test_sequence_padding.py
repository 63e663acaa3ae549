"""VariableLengthSequencePadding: sequence after sequence; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(1).standard_normal((5, 3, 2)).astype(np.float32)
LENGTHS = np.array([2, 5, 0], np.int32)


def ended(x: Array, lengths: Array) -> Array:
    """Set what lies behind each end to 0."""
    found = x.copy()
    for n, count in enumerate(lengths.reshape(-1)):
        found[count:, n] = 0
    return found


TYPE = "VariableLengthSequencePadding"
CASES = [
    Case("VariableLengthSequencePadding", [X, LENGTHS], ended),
    Case(TYPE, [X[:, :, :, None] * np.ones(4, "f"), LENGTHS[None]], ended, id="rank 4, lengths as a matrix"),
    Case(TYPE, [X[:0], 0 * LENGTHS], X[:0], id="no steps"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Any], type[TazzaError], str]] = [
    ([X, LENGTHS + 1], NumericError, r"lengths\[1\] is 6, not in \[0, 6\)"),
    ([X, LENGTHS - 1], NumericError, r"lengths\[2\] is -1"),
    ([X, LENGTHS[:2]], ShapeError, "there are 2 lengths, and X has N = 3 sequences"),
    ([X[:, :, 0], LENGTHS], ShapeError, "X"),
    ([X.astype(np.float64), LENGTHS], DTypeError, "X is float64"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs)
