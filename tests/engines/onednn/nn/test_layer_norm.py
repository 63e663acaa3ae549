"""Layer normalization on oneDNN: whatever way X lies, its rows are read in order."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.onednn.library import unavailable
from tazza.tensor import ROW_MAJOR, channels_last
from tests.check import assert_close
from tests.engines.onednn.layouts import Relaid, blocked, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

X, GAMMA, BETA = numbers(2, 19, 5, 3), numbers(285), numbers(286)[1:].copy()


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_ways(axis: int) -> None:
    n = X[0].size if axis == 1 else X.shape[-1] if axis == -1 else X[0, 0].size
    args = {"axis": axis, "elementwise_affine": 1, "epsilon": 1e-3}
    case = Relaid("LayerNorm", [X, GAMMA[:n].copy(), BETA[:n].copy()], args, outputs=3)
    expected, _ = case.run("reference", row_major)
    for way in (row_major, channels_last, blocked):
        got, operator = case.run("onednn", way)
        for one, wanted in zip(got, expected, strict=True):
            assert_close(one, wanted, slack=3)
        assert operator.outputs[0].tensor().layout == ROW_MAJOR


def test_rows_far_from_zero() -> None:
    """The variance is that of the distances from the mean, so nothing cancels."""
    case = Relaid("LayerNorm", [X + np.float32(1000)], outputs=3)
    expected, _ = case.run("reference", row_major)
    got, _ = case.run("onednn", row_major)
    for one, wanted in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-3, atol=1e-3)
