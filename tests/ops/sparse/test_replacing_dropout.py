"""SparseDropoutWithReplacement: nothing, everything, and about as much as was asked for; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

X, LENGTHS = np.arange(6) + 10, np.array([2, 0, 3, 1], np.int32)
TYPE = "SparseDropoutWithReplacement"
ONES = np.ones(4, np.int32)
CASES = [
    Case("SparseDropoutWithReplacement", [X, LENGTHS], (X, LENGTHS), id="nothing"),
    Case(TYPE, [X, LENGTHS], (np.full(4, -7), ONES), {"ratio": 1.0, "replacement_value": -7}, id="everything"),
    Case(TYPE, [X[:0], LENGTHS[:0]], (X[:0], LENGTHS[:0]), {"ratio": 0.5}, id="none"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_segments_are_replaced_whole() -> None:
    lengths = np.random.default_rng(1).integers(0, 4, 4000).astype(np.int32)
    ids = np.arange(int(lengths.sum()))
    Y, left = run_op(TYPE, ids, lengths, ratio=0.3, replacement_value=-1, outputs=2)
    begin, kept, marks = 0, 0, [0, *np.cumsum(lengths).tolist()]
    for n, count in enumerate(left):
        own = Y[begin : begin + count].tolist()
        begin += count
        stays = own == ids[marks[n] : marks[n + 1]].tolist()
        assert stays or own == [-1]
        kept += stays
    assert begin == len(Y)
    assert 0.66 < kept / 4000 < 0.74


REFUSED: list[tuple[list[Any], dict[str, Any], type[TazzaError], str]] = [
    ([X, LENGTHS], {"ratio": 1.5}, TazzaError, "ratio"),
    ([X, LENGTHS], {"ratio": -0.5}, TazzaError, "ratio"),
    ([X, LENGTHS[:3]], {}, NumericError, "the 3 lengths add up to 5, and there are 6 ids"),
    ([X, np.array([7, -1], "i")], {}, NumericError, r"lengths\[1\] is -1"),
    ([X.reshape(2, 3), LENGTHS], {}, ShapeError, "X"),
]


@pytest.mark.parametrize(("inputs", "arguments", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs, **arguments)
