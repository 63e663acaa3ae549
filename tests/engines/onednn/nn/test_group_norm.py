"""Group normalization on oneDNN in every layout."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.onednn.library import unavailable
from tests.engines.onednn.layouts import Relaid, check_ways, numbers

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

X, DY = numbers(2, 18, 7, 6), numbers(6, 7, 18, 2).transpose(3, 2, 1, 0).copy()
VECTORS = [numbers(18), numbers(19)[1:].copy()]
ROWS = X.reshape(2, 6, 126)
STATISTICS = [ROWS.mean(axis=2), 1 / np.sqrt(ROWS.var(axis=2) + np.float32(1e-5))]
CASES = [
    Relaid("GroupNorm", [X, *VECTORS], {"group": 6}, outputs=3, slack=3),
    Relaid("GroupNorm", [X, *VECTORS], {"group": 6}, slack=3),
    Relaid("GroupNorm", [X, *VECTORS], {"group": 18}, outputs=3, slack=3),
    Relaid("GroupNormGradient", [DY, X, *VECTORS, *STATISTICS], {"group": 6}, images=(0, 1), outputs=3, slack=20),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_ways(case: Relaid) -> None:
    check_ways(case)
