"""BatchPermutation and its gradient: by indexing; rows that come up twice; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(5).standard_normal((4, 3, 2)).astype(np.float32)
ORDER, TWICE = np.array([2, 0, 3, 1], np.int32), np.array([3, 1, 3, 3], np.int32)
CASES = [
    Case("BatchPermutation", [X, ORDER], X[[2, 0, 3, 1]]),
    Case("BatchPermutation", [X, TWICE], X[[3, 1, 3, 3]], id="a row three times"),
    Case("BatchPermutation", [X[:0], ORDER[:0]], X[:0], id="nothing"),
    Case("BatchPermutationGradient", [ORDER, X], X[[1, 3, 0, 2]]),
    Case(
        "BatchPermutationGradient",
        [TWICE, X],
        np.stack([0 * X[0], X[1], 0 * X[0], X[[0, 2, 3]].sum(0)]),
        id="a row three times",  # Caffe2 keeps the last one, and leaves the others as memory is
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("BatchPermutation", [X, ORDER + 1], {}, NumericError, r"indices\[2\] is 4, not in \[0, 4\)"),
    ("BatchPermutation", [X, ORDER[:3]], {}, ShapeError, "indices"),
    ("BatchPermutationGradient", [ORDER - 1, X], {}, NumericError, r"indices\[1\] is -1"),
    ("BatchPermutationGradient", [ORDER[:3], X], {}, ShapeError, "dY"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
