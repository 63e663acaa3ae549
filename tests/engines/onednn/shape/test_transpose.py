"""Axes in another order on oneDNN, from every layout."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.onednn.library import unavailable
from tazza.tensor import channels_last
from tests.engines.onednn.layouts import Relaid, blocked, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

X = numbers(2, 19, 7, 6)
CASES = [
    Relaid("Transpose", [X]),
    Relaid("Transpose", [X], {"axes": [2, 0, 3, 1]}),
    Relaid("NCHW2NHWC", [X]),
    Relaid("NHWC2NCHW", [X]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.type} {case.args}")
def test_ways(case: Relaid) -> None:
    expected, _ = case.run("reference", row_major)
    for way in (row_major, channels_last, blocked):
        got, _ = case.run("onednn", way)
        np.testing.assert_array_equal(got[0], expected[0])
