"""Reductions on oneDNN: axes anywhere, layouts, long rows."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.onednn.library import unavailable
from tazza.engines.onednn.reduce.reduce import ALGORITHMS, LONGEST
from tazza.tensor import channels_last
from tests.check import assert_close
from tests.engines.onednn.layouts import Relaid, blocked, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

X = numbers(2, 19, 7, 6)


@pytest.mark.parametrize("axes", [[], [1], [0, 2, 3], [3], [0, 1]], ids=str)
@pytest.mark.parametrize("type", ALGORITHMS)
def test_ways(type: str, axes: list[int]) -> None:
    case = Relaid(type, [X], {"axes": axes, "keepdims": 0})
    expected, _ = case.run("reference", row_major)
    for way in (row_major, channels_last, blocked):
        got, _ = case.run("onednn", way)
        assert_close(got[0], expected[0], slack=10)


@pytest.mark.parametrize("count", [LONGEST * 6, LONGEST * 2 + 17])
def test_long_rows(count: int) -> None:
    """One is reduced in turns; the other one has a prime number of elements."""
    values = np.abs(numbers(3, count))
    got, _ = Relaid("ReduceSum", [values], {"axes": [1]}, images=()).run("onednn", row_major)
    np.testing.assert_allclose(got[0][:, 0], values.sum(axis=1, dtype=np.float64), rtol=1e-5)
