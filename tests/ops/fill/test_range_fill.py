"""RangeFill: by hand, with each way to a shape; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

CASES = [
    Case("RangeFill", [], np.array([[0, 1, 2], [3, 4, 5]]), {"shape": [2, 3]}),
    Case("RangeFill", [np.ones((2, 1), np.int32)], np.array([[[0, 1]], [[2, 3]]]), {"extra_shape": [2]}, id="as X"),
    Case("RangeFill", [np.array([2, 1])], np.array([[0], [1]]), {"input_as_shape": 1}, id="X holds it"),
    Case("RangeFill", [], np.array(0), id="rank 0"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_refused() -> None:
    with pytest.raises(ArgumentError, match="shape"):
        run_op("RangeFill", np.ones(2), shape=[2])
