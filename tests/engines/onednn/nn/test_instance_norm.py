"""Instance normalization on oneDNN in every layout, of several images and of one."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.onednn.library import unavailable
from tests.engines.onednn.layouts import Relaid, check_ways, numbers

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

X, DY = numbers(2, 18, 7, 6), numbers(6, 7, 18, 2).transpose(3, 2, 1, 0).copy()
VECTORS = [numbers(18), numbers(19)[1:].copy()]
STATISTICS = [X.mean(axis=(2, 3)), 1 / np.sqrt(X.var(axis=(2, 3)) + np.float32(1e-5))]
CASES = [
    Relaid("InstanceNorm", [X, *VECTORS], outputs=3, slack=5),
    Relaid("InstanceNorm", [X, *VECTORS], slack=5, in_place={0: 0}),
    Relaid("InstanceNorm", [X[:1], *VECTORS], outputs=3, slack=5),
    Relaid("InstanceNorm", [X[:1], *VECTORS], slack=5, in_place={0: 0}),
    Relaid("InstanceNormGradient", [X, *VECTORS, DY], images=(0, 3), outputs=3, slack=20),
    Relaid("InstanceNormGradient", [X, *VECTORS, DY, *STATISTICS], images=(0, 3), outputs=3, slack=20),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_ways(case: Relaid) -> None:
    check_ways(case)
